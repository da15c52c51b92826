"""`medley` as a process of its own that begins where imports end: it is forked from one that has them all.

The command is the real one, with its own arguments, environment and streams; what is left out is to read and to import
the same half a million lines, and to load the same machine code, for seconds before each of some two hundred commands.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from tempfile import TemporaryDirectory

_IMPORTED = ("tests.e2e.forked_imports",)


def forking() -> ForkServerContext:
    """What forks commands; of a test session there is one, which starts with the first of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_IMPORTED))
    return context


def forked(
    context: ForkServerContext, arguments: list[str], environment: Mapping[str, str], timeout_s: float
) -> CompletedProcess[str]:
    """Run `medley` with these arguments and nothing else in its environment. Raises TimeoutExpired, and kills it."""
    with TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = context.Process(target=_command, args=(arguments, dict(environment), out, err))
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutExpired(["medley", *arguments], timeout_s, out.read_bytes(), err.read_bytes())
        return CompletedProcess(["medley", *arguments], process.exitcode, out.read_text(), err.read_text())


def _command(arguments: list[str], environment: dict[str, str], out: Path, err: Path) -> None:
    """In the forked process."""
    from control.cli.main import run

    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in ((1, out), (2, err)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    sys.argv = ["medley", *arguments]
    run()
