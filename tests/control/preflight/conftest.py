"""A plan that can be launched, and the hub and tools for it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from control.db.database import open_database
from control.preflight.planned import Planned
from tests.control.planning.worlds import planned, world_of
from tests.control.preflight.launches import CONFIG, REPOSITORY, SPEC, TENSORS
from tests.hub_server import Hub, serving, use


@pytest.fixture(scope="module")
def made(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    with open_database(module_database_url) as database:
        world = world_of(tmp_path_factory.mktemp("spec"), SPEC)
        return Planned(world, planned(database, world))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    files = {
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors.index.json": json.dumps({"weight_map": TENSORS}).encode(),
        "tokenizer.json": b"{}",
        "a.safetensors": b"a",
        "b.safetensors": b"b",
    }
    with serving(Hub({REPOSITORY: files})) as hub:
        hub.sizes = {"a.safetensors": 7 * 10**9, "b.safetensors": 6 * 10**9}
        use(hub, tmp_path / "home", monkeypatch)
        yield hub


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that renting takes is installed."""
    monkeypatch.setattr("control.preflight.site.shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("control.preflight.site.importlib.util.find_spec", lambda _: object())
