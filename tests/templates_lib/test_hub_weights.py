"""What is fetched of a repository, by the hub's own client from a hub on this machine."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from templates_lib.models.hub_weights import fetch_layers, fetch_text
from templates_lib.models.weights_place import NoWeightsError
from tests.hub_server import COMMIT, Hub, serving, use

PLACE = "hf:acme/tiny"
TENSORS = {
    "model.embed_tokens.weight": "a.safetensors",
    "model.layers.0.mlp.up_proj.weight": "a.safetensors",
    "model.layers.1.mlp.up_proj.weight": "b.safetensors",
    "model.layers.10.mlp.up_proj.weight": "c.safetensors",
    "lm_head.weight": "d.safetensors",
}
FILES = {
    "config.json": b"{}",
    "model.safetensors.index.json": json.dumps({"weight_map": TENSORS}).encode(),
    "tokenizer.json": b'{"model": {}}',
    "README.md": b"nobody needs it",
    **{name: name.encode() * 100 for name in TENSORS.values()},
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    whole = {"config.json": b"{}", "model.safetensors": b"all of it"}
    with serving(Hub({"acme/tiny": FILES, "acme/whole": whole, "acme/none": {"README.md": b""}})) as hub:
        use(hub, tmp_path / "home", monkeypatch)
        yield hub


def test_a_stage_fetches_the_files_of_its_layers_and_of_the_ends_and_does_so_once(hub: Hub) -> None:
    folder = fetch_layers(PLACE, 1, 9)
    assert {path.name for path in folder.iterdir()} == {
        *("config.json", "model.safetensors.index.json", "a.safetensors", "b.safetensors", "d.safetensors"),
        "tokenizer.json",
    }
    assert (folder / "b.safetensors").read_bytes() == FILES["b.safetensors"]
    before = list(hub.sent)
    assert fetch_layers(PLACE, 1, 9) == folder
    assert hub.sent == before
    assert fetch_layers(PLACE) == folder
    assert hub.sent == [*before, "c.safetensors"]


def test_a_model_in_one_file_and_the_text_side_of_one(hub: Hub) -> None:
    folder = fetch_layers("hf:acme/whole", 3, 1)
    assert (folder / "model.safetensors").read_bytes() == b"all of it"
    hub.sent.clear()
    found = fetch_text(PLACE)
    assert [(each.name, each.read_bytes()) for each in found] == [
        (name, FILES[name]) for name in ("tokenizer.json", "config.json")
    ]
    assert hub.sent == ["tokenizer.json", "config.json"]


def test_what_was_fetched_is_used_while_the_hub_is_away(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"{PLACE}@{COMMIT}"
    folder = fetch_layers(place)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert fetch_layers(place) == folder
    with pytest.raises(NoWeightsError, match=r"hf:acme/whole: config.json cannot be fetched: .*127.0.0.1:9"):
        fetch_layers("hf:acme/whole")


def test_a_file_that_was_damaged_on_its_way_is_refused_by_name_and_fetched_again(hub: Hub) -> None:
    hub.damaged.add("b.safetensors")
    with pytest.raises(NoWeightsError, match=r"b.safetensors was damaged on its way"):
        fetch_layers(PLACE)
    hub.damaged.clear()
    assert (fetch_layers(PLACE) / "b.safetensors").read_bytes() == FILES["b.safetensors"]


def test_what_cannot_be_fetched_is_said_with_what_to_do(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {
        "hf:acme/tinny": "no such repository, or reading it takes a token: set HF_TOKEN",
        "hf:acme/tiny@v2": "no such revision",
        "hf:acme/none": "has no config.json",
        "hf:acme": "are named hf:ORG/NAME",
        "hf:../../etc/passwd": "are named hf:ORG/NAME",
    }
    for place, said in wrong.items():
        with pytest.raises(NoWeightsError, match=said):
            fetch_layers(place)
    hub.token = "hf_secret"  # noqa: S105
    with pytest.raises(NoWeightsError, match="set HF_TOKEN"):
        fetch_layers(PLACE)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert fetch_layers(PLACE).name == COMMIT


@pytest.mark.parametrize("index", [b"[]", b"{", b'{"weight_map": {"a": "../../b.safetensors"}}', b'{"weight_map": 1}'])
def test_an_index_that_is_none_or_points_elsewhere_is_refused(hub: Hub, index: bytes) -> None:
    hub.files = {"acme/tiny": {**FILES, "model.safetensors.index.json": index}}
    with pytest.raises(NoWeightsError, match=r"index.json cannot be read"):
        fetch_layers(PLACE)
