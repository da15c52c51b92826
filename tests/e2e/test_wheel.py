"""The wheel, which is what people install: whole, and able to plan from where it was put."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("agents", "control", "migrations", "policies", "sdk/medley_sdk", "templates_lib")
FILES = ("pyproject.toml", "README.md")
FOR_DEVELOPERS = "migrations/alembic.ini"
"""Of Alembic's command line; Medley's own names its database itself."""


def run(*words: str | Path, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def built_wheel(folder: Path) -> Path:
    """Build the wheel of this code in a folder."""
    source = folder / "source"
    for part in PARTS:
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, source)
    here = ["--no-build-isolation"] if find_spec("setuptools") else []  # else pip fetches what builds it
    run("-m", "pip", "wheel", "--quiet", "--no-deps", *here, "--wheel-dir", folder, source)
    (wheel,) = folder.glob("medley_serving-*.whl")
    return wheel


@pytest.mark.slow
@pytest.mark.needs("chromium")  # whoever has the console built
def test_a_wheel_has_all_that_the_packages_read_and_plans(tmp_path: Path) -> None:
    wheel, site = built_wheel(tmp_path), tmp_path / "site"
    there = {file.relative_to(ROOT).as_posix() for part in PARTS for file in (ROOT / part).rglob("*") if file.is_file()}
    there = {name.removeprefix("sdk/") for name in there if "__pycache__" not in name} - {FOR_DEVELOPERS}
    with zipfile.ZipFile(wheel) as archive:
        missing = there - set(archive.namelist())
    assert missing == set(), "a file that the code may read at run time is left out"
    run("-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel)
    spec = ROOT / "examples" / "coral-core.yaml"
    code = "import control, sys; from control.cli.main import run; sys.argv = ['medley', *sys.argv[1:]]; run()"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    found = run("-c", "import importlib.metadata as m; print(m.version('medley-serving'))", PYTHONPATH=str(site))
    assert found.strip() == version
    where = run("-P", "-c", "import control; print(control.__file__)", PYTHONPATH=str(site))
    assert where.startswith(str(site))
    home = {"PYTHONPATH": str(site), "MEDLEY_HOME": str(tmp_path / "home")}
    assert "Plan " in run("-P", "-c", code, "plan", "-f", spec, "--no-baselines", **home)
    assert "qwen2.5-vl-7b" in run(
        "-P", "-c", code, "tasks", "check", ROOT / "examples" / "tasks" / "describe.py", **home
    )


@pytest.mark.slow
def test_what_tasks_are_written_with_is_a_wheel_of_its_own(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(ROOT / "sdk", source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    run("-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, source)
    (wheel,) = tmp_path.glob("medley_sdk-*.whl")
    run("-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel)
    code = "import medley_sdk, medley_sdk.sandbox, sys; print(medley_sdk.__file__, sorted(sys.modules))"
    found = run("-P", "-c", code, PYTHONPATH=str(site))
    assert found.startswith(str(site))
    assert not {f"'{name}'" for name in ("control", "templates_lib", "policies", "agents", "numpy")} & {
        *found.split(", ")
    }
