"""The evaluation of the Coral paper (section 6), run again.

    python -m bench.evaluation all
    python -m bench.evaluation cost|scarcity|skew|helix|sensitivity|interval|figures|splits|savings|queueing
    python -m bench.evaluation attainment|goodput_cost|bands|sold|spare [--seed N]

Every experiment prints our figures with the paper's beside them; docs/results.md explains where they differ. Exits with
1 when a plan fails the independent check or an experiment misses its bar.
"""

import argparse
import signal
import sys
from pathlib import Path

from bench.evaluation import (
    attainment,
    bands,
    cost,
    figures,
    goodput_cost,
    helix,
    interval,
    queueing,
    savings,
    scarcity,
    sensitivity,
    skew,
    sold,
    spare,
    splits,
)
from bench.evaluation.campaign import Campaign
from bench.evaluation.epochs import KINDS
from bench.evaluation.methods import METHODS

EXPERIMENTS = {
    "cost": cost.run,
    "scarcity": scarcity.run,
    "skew": skew.run,
    "helix": helix.run,
    "sensitivity": sensitivity.run,
    "interval": interval.run,
    "figures": figures.run,
    "splits": splits.run,
    "savings": savings.run,
    "queueing": queueing.run,
    "attainment": attainment.run,
    "goodput_cost": goodput_cost.run,
    "bands": bands.run,
    "sold": sold.run,
    "spare": spare.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="+", choices=[*EXPERIMENTS, "all"])
    parser.add_argument("--setup", choices=["core", "extended"], help="only this one (default: both)")
    parser.add_argument("--market", choices=KINDS, help="of savings and what follows it (default: all)")
    parser.add_argument("--method", choices=METHODS, help="of queueing and what follows it (default: all)")
    parser.add_argument("--seed", type=int, help="first of the seeds of simulations that no certificate has seen")
    parser.add_argument("-o", "--output", type=Path, help="folder for the tables as CSV")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that databases are stopped
    setups = (chosen.setup,) if chosen.setup else ("core", "extended")
    names = EXPERIMENTS if "all" in chosen.experiment else dict.fromkeys(chosen.experiment)
    kinds = (chosen.market,) if chosen.market else KINDS
    methods = (chosen.method,) if chosen.method else tuple(METHODS)
    with Campaign(setups, kinds, methods, chosen.seed) as campaign:
        missed = [name for name in names if not EXPERIMENTS[name](campaign, chosen.output)]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
