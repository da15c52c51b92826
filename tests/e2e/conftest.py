"""The real command in a process of its own, on a database of its own."""

import os
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

MEDLEY = str(Path(sysconfig.get_path("scripts")) / "medley")
EXAMPLES = Path(__file__).parents[2] / "examples"

Run = Callable[..., subprocess.CompletedProcess[str]]


def environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MEDLEY_")}
    return kept | {"MEDLEY_HOME": str(home)}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("medley-home")


@pytest.fixture(scope="session")
def medley(home: Path) -> Run:
    def run(*arguments: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
        command = [MEDLEY, *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment(home) | changes, timeout=300, check=False
        )

    return run
