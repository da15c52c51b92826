"""Engines that a node installs at its launch: the script runs, in a home of its own, with stubs of programs."""

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.set_up import SetUp
from control.overlay.place import OverlayPlace
from templates_lib.values.engines import ENGINES, environments, least_driver
from tests.control.cloud.harness import request

UV = f"""
echo "$*" >> "$HOME/uv.log"
if [ "$1" = venv ]; then
    for folder; do :; done
    mkdir -p "$folder/bin"
    ln -s {sys.executable} "$folder/bin/python"
fi
"""


@pytest.fixture
def home(tmp_path: Path) -> SkyPilotHome:
    return SkyPilotHome(tmp_path / "skypilot", "me")


def node_with(
    home: SkyPilotHome, node: Path, engines: frozenset[str], overlay: OverlayPlace | None = None, **programs: str
) -> tuple[str, dict[str, str]]:
    """Lay out what a node with these programs is sent; return its script and environment."""
    code = "import os; print(os.environ.get('MEDLEY_VLLM_PYTHON'), os.environ['PATH'].split(':')[0])"
    sent = SetUp(home).stage(
        replace(
            request(command=("python3", "-c", code)),
            engines=engines,
            least_driver=least_driver(engines),
            overlay=overlay,
        )
    )
    for target, source in sent.files.items():
        path = node / target.removeprefix("~/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Path(source).read_bytes())
    for name, text in programs.items():
        program = node / "bin" / name.replace("_", "-")
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    path = f"{node}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return f"{sent.set_up}\n{sent.run}", {"HOME": str(node), "PATH": path, "SKYPILOT_NODE_IPS": "10.0.0.7"}


def run(script: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(("bash", "-e", "-c", script), env=environment, capture_output=True, text=True, check=False)


def test_an_engine_with_an_environment_is_installed_by_hashes_beside_the_agents_own_python(
    home: SkyPilotHome, tmp_path: Path
) -> None:
    programs = {"nvidia_smi": "echo 580.95.05; echo 580.95.05", "uv": UV, "cc": ""}
    script, environment = node_with(home, tmp_path, frozenset({"vllm"}), **programs)
    done = run(script, environment)
    assert done.stdout == f"{tmp_path}/.medley/vllm/bin/python {Path(sys.executable).parent}\n", done.stderr
    made, installed = (tmp_path / "uv.log").read_text().splitlines()
    assert made.endswith(f"--python 3.12 {tmp_path}/.medley/vllm")
    assert "--require-hashes" in installed.split()
    lock = Path(installed.rpartition(" ")[2])
    assert lock.read_bytes() == (files("templates_lib") / "data/engines/vllm.lock").read_bytes()
    script, environment = node_with(
        home, tmp_path / "other", frozenset({"torch"}), uv="exit 1", nvidia_smi="echo 590.1", cc=""
    )
    assert run(script, environment).stdout.startswith("None ")


def test_a_node_whose_image_has_the_engine_uses_it_as_it_is(
    home: SkyPilotHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = replace(ENGINES["vllm"], environment=replace(environments(["vllm"])["vllm"], has=("msgspec>=0.1",)))
    monkeypatch.setitem(ENGINES, "vllm", has)
    script, environment = node_with(
        home, tmp_path, frozenset({"vllm"}), uv="exit 1", nvidia_smi="echo 580.65.06", cc=""
    )
    image = tmp_path / "image-python"
    image.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    image.chmod(0o755)
    done = run(script, environment | {"MEDLEY_VLLM_PYTHON": str(image)})
    assert done.stdout.split()[0] == str(image), done.stderr


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({"nvidia_smi": "echo 550.54.15"}, "driver 550 of NVIDIA, and engines need 580"),
        ({"nvidia_smi": "exit 9"}, "no working driver"),
    ],
)
def test_a_node_that_cannot_run_its_engine_says_so_before_anything_is_downloaded(
    home: SkyPilotHome, tmp_path: Path, programs: dict[str, str], said: str
) -> None:
    script, environment = node_with(home, tmp_path, frozenset({"vllm"}), **programs, uv=UV, cc="")
    done = run(script, environment)
    assert done.returncode != 0
    assert said in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "uv.log").exists()


def test_what_is_said_of_an_engines_environment_is_what_its_lock_has() -> None:
    for name, environment in environments(ENGINES).items():
        lock = (files("templates_lib") / environment.lock).read_text()
        pinned = dict(line.removesuffix(" \\").split("==") for line in lock.splitlines() if line[:1].isalpha())
        hashes = [block for block in re.split(r"^(?=[a-z])", lock, flags=re.M) if block]
        assert all("--hash=sha256:" in block for block in hashes), name
        assert "://" not in lock  # nor does it say which registry
        assert pinned["nvidia-cuda-runtime"].startswith(f"{ENGINES[name].cuda.release}.")
        for wanted in map(Requirement, environment.has):
            assert wanted.specifier.contains(pinned[wanted.name])
        stated = (files("templates_lib") / environment.lock.replace(".lock", ".in")).read_text().split()
        assert stated == list(environment.has)


def test_the_lock_of_the_agent_has_what_its_extra_states_and_every_wheels_hash() -> None:
    folder = files("templates_lib") / "data/engines"
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    core = [each for each in project["dependencies"] if re.match(r"(msgspec|numpy|psutil)\b", each)]
    stated = sorted((*core, *project["optional-dependencies"]["agent"]))
    assert (folder / "agent.in").read_text().splitlines() == stated, "change agent.in, then run `make locks`"
    lock = (folder / "agent.lock").read_text()
    blocks = [block for block in re.split(r"^(?=[a-z])", lock, flags=re.M) if block]
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in lock  # nor does it say which registry
    pinned = dict(block.split(" ", 1)[0].split("==") for block in blocks)
    for wanted in map(Requirement, stated):
        assert wanted.specifier.contains(pinned[wanted.name]), wanted
    assert pinned["nvidia-cuda-runtime"].startswith(f"{ENGINES['torch'].cuda.release}.")


def test_a_node_without_what_the_agent_needs_installs_it_by_hashes(home: SkyPilotHome, tmp_path: Path) -> None:
    bare = f'#!/bin/sh\n[ "$1" = -m ] || case "$1" in *meets.py) exit 1;; esac\nexec {sys.executable} "$@"\n'
    pythons = dict.fromkeys(("python3", "python3.13", "python3.12", "python3.11"), bare)
    script, environment = node_with(
        home, tmp_path, frozenset({"torch"}), nvidia_smi="echo 590.1", uv=UV, cc="", **pythons
    )
    done = run(script, environment)
    made, installed = (tmp_path / "uv.log").read_text().splitlines()
    assert made.endswith(f"--python 3.12 {tmp_path}/.medley/venv"), done.stderr
    assert "--require-hashes" in installed.split()
    lock = Path(installed.rpartition(" ")[2])
    assert lock.read_bytes() == (files("templates_lib") / "data/engines/agent.lock").read_bytes()
    assert done.returncode == 0, done.stderr
