"""The wheel that rented nodes install."""

import ast
import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from control.cloud.skypilot.agent_wheel import agent_wheel
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.set_up import SetUp, agent_requirements
from tests.control.cloud.harness import request

OURS = ("agents", "control", "migrations", "policies", "templates_lib")


def files() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(agent_wheel().content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def imported(code: bytes) -> Iterator[str]:
    """Yield the modules of ours that it imports anywhere."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.partition(".")[0] in OURS)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in OURS:
            yield node.module


def test_the_agents_code_is_packed_alike_each_time_and_holds_no_control_plane(tmp_path: Path) -> None:
    home = SkyPilotHome(tmp_path / "skypilot", "me")
    home.create()
    first, second = (SetUp(home).stage(request(name)) for name in ("a", "b"))
    wheel = f"~/.medley/{agent_wheel().name}"
    assert (first.files[wheel], first.sha256) == (second.files[wheel], second.sha256)
    assert hashlib.sha256(agent_wheel.__wrapped__().content).hexdigest() == first.sha256
    assert hashlib.sha256(Path(first.files[wheel]).read_bytes()).hexdigest() == first.sha256
    names = list(files())
    packages = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert packages == {"agents", "policies", "templates_lib"}
    assert not any("__pycache__" in name for name in names)
    needed = {requirement.partition("<")[0].partition(">")[0] for requirement in agent_requirements()}
    assert {"torch", "pyzmq", "msgspec", "safetensors"} <= needed


def test_whatever_of_ours_the_wheels_code_imports_is_in_the_wheel() -> None:
    packed = files()
    wanted = {(module, name) for name, code in packed.items() if name.endswith(".py") for module in imported(code)}
    assert len(wanted) > 100
    missing = {
        (module, name)
        for module, name in wanted
        if not {f"{module.replace('.', '/')}{end}" for end in (".py", "/__init__.py")} & packed.keys()
    }
    assert missing == set()
