"""Shared units: several models on one set of GPUs, beside what the authors of MuxServe measured.

    python -m bench.units shares [--write]
    python -m bench.units estimator
    python -m bench.units systems
    python -m bench.units dispatch [--seed 1]
    python -m bench.units least
    python -m bench.units fleets
    python -m bench.units pool
    python -m bench.units placement [--cases 100] [--seed 1]

`shares`: steps on parts of A100s against the curves of the cost model; `--write` fits and stores them. `estimator`:
estimated throughputs against those of the authors' runs. `placement`: Algorithm 1 on random cases of the two sizes of
Figure 8, against the best of all partitions. `systems`: a static split, temporal multiplexing, Algorithm 1 and the best
dedicated split on the authors' real workload. `least`: the fewest A100s that serve it as a whole. `dispatch`: Figure 9,
three policies of one unit in simulation. `fleets`: plans of 20 small models with units and without, over the dated
offers of AWS and GCP. `pool`: leases of the common KV cache, and steps on it. All but `fleets` and `pool` read
shared/data (a sibling of the repository). Exits with 1 when a bar is missed.
"""

import argparse
import sys
from collections.abc import Callable

from bench.units import dispatch, estimator, fleets, least, placement, pool, shares, systems

RUNS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "shares": lambda chosen: shares.run(write=chosen.write),
    "estimator": lambda _: estimator.run(),
    "placement": lambda chosen: placement.run(chosen.cases, chosen.seed),
    "systems": lambda _: systems.run(),
    "fleets": lambda _: fleets.run(),
    "least": lambda _: least.run(),
    "pool": lambda _: pool.run(),
    "dispatch": lambda chosen: dispatch.run(chosen.seed),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="+", choices=[*RUNS])
    parser.add_argument("--write", action="store_true", help="store the curves that `shares` fits")
    parser.add_argument("--cases", type=int, default=100, help="random cases of each size of `placement`")
    parser.add_argument("--seed", type=int, default=1, help="of the random cases")
    chosen = parser.parse_args()
    missed = [name for name in dict.fromkeys(chosen.experiment) if not RUNS[name](chosen)]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
