"""Seconds and memory to build whole libraries, against the bar of 60 s on 2 cores and 2 GB. Exits with 1 when missed.

    python -m bench.library_build [--setup extended]

Runs `medley templates build` for each set-up of examples/ (or only one) on two cores and an empty database: the time is
that of the command from start to end, the memory the most that its process held (its workers are threads). `sets` are
node multisets within N_max and rho, `templates` those with throughput > 0, `kept` those left after pruning.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.commands import MEDLEY
from bench.setups import EXAMPLES, SETUPS

BAR_S = 60.0
BAR_CORES = 2
BAR_GB = 2.0


def build(setup: str, home: str) -> bool:
    """Whether the bar is met."""
    command = [MEDLEY, "templates", "build", "-f", str(EXAMPLES / SETUPS[setup]), "-o", "json"]
    document = Path(home) / "library.json"
    start = time.perf_counter()
    with document.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.DEVNULL, env=os.environ | {"MEDLEY_HOME": home}
        )
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        print(f"{setup}: the command failed; run it yourself: {' '.join(command)}")
        return False
    made = json.loads(document.read_text())
    print(f"{setup:28} {'sets':>10} {'templates':>10} {'kept':>10} {'seconds':>8}")
    for unit in [*made["units"], {"name": "all", **made}]:
        counts = f"{unit['sets']:10,} {unit['templates']:10,} {unit['kept']:10,}"
        print(f"  {unit['name']:26} {counts} {unit['seconds']:8.2f}")
    gigabytes, cpu_s = usage.ru_maxrss * 1024 / 1e9, usage.ru_utime + usage.ru_stime
    met = seconds <= BAR_S and gigabytes <= BAR_GB
    verdict = f"bar {BAR_S:.0f} s and {BAR_GB:.0f} GB: {'met' if met else 'MISSED'}"
    took = f"{seconds:.1f} s for the whole command on {BAR_CORES} cores ({cpu_s:.1f} s of CPU)"
    print(f"  {took}, peak memory {gigabytes:.2f} GB; {verdict}")
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", choices=SETUPS, help="only this one (default: all)")
    only = parser.parse_args().setup
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:BAR_CORES])  # inherited by all that it starts
    met = []
    for setup in [only] if only else SETUPS:
        with tempfile.TemporaryDirectory(prefix="medley-bench-") as home:
            met.append(build(setup, home))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
