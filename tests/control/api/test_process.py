"""`medley api` on the embedded database: a process that is told to end leaves none behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from control.db.cluster import PostgresCluster

START = "from control.cli.main import run; run()"
PATIENCE_S = 240


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_its_database_ends_with_it(short_tmp: Path, told: signal.Signals) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEDLEY_")}
    home = short_tmp / "medley"
    process = subprocess.Popen(
        (sys.executable, "-c", START, "api", "--port", "0", "--workers", "0"),
        env=kept | {"MEDLEY_HOME": str(home)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert b"medley api: http" in process.stdout.readline()
        database = psutil.Process(PostgresCluster.of(home / "postgres").address().pid)
    finally:
        process.send_signal(told)
        process.communicate(timeout=PATIENCE_S)
    database.wait(PATIENCE_S)
    assert process.returncode in (0, 130)
