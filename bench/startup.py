"""How long `medley --help` and a warm `medley plan` of the core example take, against the bars of 0.4 s and 3 s.

    python -m bench.startup [--runs 5]

Medians of whole commands. The plan is warm: its library is in the database (of its own, removed afterwards) and the
placement code is compiled. A bare `python -c pass` says what the machine takes for nothing. Exits with 1 when a bar is
missed.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from bench.commands import MEDLEY
from bench.setups import EXAMPLES, SETUPS

BAR_HELP_S = 0.4
BAR_PLAN_S = 3.0


def median_s(name: str, command: list[str], runs: int, home: str) -> float:
    """Of `runs` runs after one that is not counted: it compiles byte code, which is an installer's work, and builds."""
    times, cpu = [], []
    for _ in range(runs + 1):
        start, used = time.perf_counter(), _cpu_of_children_s()
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"MEDLEY_HOME": home})
        times.append(time.perf_counter() - start)
        cpu.append(_cpu_of_children_s() - used)
    median = statistics.median(times[1:])
    spread = f"{min(times[1:]):.3f} to {max(times[1:]):.3f}, CPU {statistics.median(cpu[1:]):.3f}"
    print(f"{name:18} median {median:.3f} s of {runs} runs ({spread}), first {times[0]:.3f} s")
    return median


def _cpu_of_children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="medley-bench-") as home:
        median_s("python -c pass", [sys.executable, "-c", "pass"], runs, home)
        help_s = median_s("medley --help", [MEDLEY, "--help"], runs, home)
        plan = [MEDLEY, "plan", "-f", str(EXAMPLES / SETUPS["core"])]
        plan_s = median_s("medley plan, core", plan, runs, home)
    met = help_s <= BAR_HELP_S and plan_s <= BAR_PLAN_S
    print(f"bars {BAR_HELP_S} s and {BAR_PLAN_S} s: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
