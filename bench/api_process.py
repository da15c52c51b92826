"""A real `medley api` in a process of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil


@contextmanager
def serving(database_url: str, home: Path, workers: int = 0) -> Iterator[tuple[psutil.Process, str]]:
    """The process and its URL, without a path. `workers`: that make plans; 0: nothing here asks for one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEDLEY_")}
    environment = kept | {"MEDLEY_DATABASE_URL": database_url, "MEDLEY_HOME": str(home)}
    start = "from control.cli.main import run; run()"
    command = (sys.executable, "-c", start, "api", "--port", "0", "--workers", str(workers))
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        found = re.search(r"http://[^/\s]+", process.stdout.readline().decode())
        assert found, "the API did not start"
        yield psutil.Process(process.pid), found[0]
    finally:
        process.terminate()
        process.wait()
