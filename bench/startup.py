"""How long `medley --help` takes, against the bar of 0.4 s. Exits with 1 when the median misses it.

python bench/startup.py [--runs 5]
"""

import argparse
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

BAR_S = 0.4


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    medley = str(Path(sysconfig.get_path("scripts")) / "medley")
    # The first run compiles byte code, which is an installer's work.
    seconds([medley, "--help"])
    ours = [seconds([medley, "--help"]) for _ in range(runs)]
    bare = [seconds([sys.executable, "-c", "pass"]) for _ in range(runs)]
    median = statistics.median(ours)
    print(f"medley --help: median {median:.3f} s of {runs} runs ({min(ours):.3f} to {max(ours):.3f})")
    print(f"python -c pass: median {statistics.median(bare):.3f} s")
    print(f"bar {BAR_S} s: {'met' if median <= BAR_S else 'MISSED'}")
    return 0 if median <= BAR_S else 1


if __name__ == "__main__":
    sys.exit(main())
