"""The real command in a process of its own, on a database of its own."""

import os
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile

import pytest

from control.db.embedded import embedded_server
from tests.forked import Forked

MEDLEY = str(Path(sysconfig.get_path("scripts")) / "medley")
EXAMPLES = Path(__file__).parents[2] / "examples"
# Its availability is a file beside it, which copies of the spec elsewhere do not have.
CORE = "\n".join(
    line for line in (EXAMPLES / "coral-core.yaml").read_text().splitlines() if "availability:" not in line
)

Run = Callable[..., CompletedProcess[str]]


def environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MEDLEY_")}
    return kept | {"MEDLEY_HOME": str(home)}


def run_medley(environment: Mapping[str, str], *arguments: str | Path) -> CompletedProcess[str]:
    """`medley` with nothing else in its environment."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        process = Forked("medley", arguments, stdout=out, stderr=err, env=environment)
        try:
            code = process.wait(600)
        finally:
            process.kill()
        texts = [(file.seek(0), file.read())[1] for file in (out, err)]
    return CompletedProcess(process.args, code, *texts)


@pytest.fixture(scope="session")
def home(short_tmp: Path) -> Iterator[Path]:
    """Its server runs all along, so that not every command starts and stops it; others have homes of their own."""
    with embedded_server(short_tmp / "medley-home" / "postgres"):
        yield short_tmp / "medley-home"


@pytest.fixture(scope="session")
def medley(home: Path) -> Run:
    def run(*arguments: str | Path, **changes: str) -> CompletedProcess[str]:
        return run_medley(environment(home) | changes, *arguments)

    return run
