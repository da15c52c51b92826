"""Pools by stage beside monoliths: the ModServe paper's evaluation in simulation, with the paper's numbers.

    python -m bench.modserve stages loads servers factors split prefill media
    python -m bench.modserve scaling thresholds
    python -m bench.modserve cost

Llama 3.2 11B and InternVL 2.5 26B on 16 servers of 8 A100-80, by estimated times; arrivals, lengths and numbers of
pictures of the two windows of the Azure LMM trace that ship with Medley, sizes of pictures drawn. `stages`: figures 5
and 9. `loads`: figure 14. `servers`, `factors`: figures 15 and 17, and ratios over SLO factors and numbers of pictures.
`split`: figure 18. `prefill`, `media`: figures 19 and 20. `scaling`: figure 16; `thresholds`: the policy's threshold.
`cost`: encoders on other GPUs than the language model, over dated offers. Exits with 1 when a bar is missed.
"""

import argparse
import sys
from collections.abc import Callable

from bench.modserve import autoscaling, characterisation, hand_over, loads, prices, slo, split

RUNS: dict[str, Callable[[], bool]] = {
    "stages": characterisation.run,
    "loads": loads.run,
    "servers": slo.servers,
    "factors": slo.factors,
    "split": split.run,
    "prefill": hand_over.prefill,
    "media": hand_over.media,
    "scaling": autoscaling.run,
    "thresholds": autoscaling.thresholds,
    "cost": prices.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="+", choices=[*RUNS])
    chosen = parser.parse_args()
    missed = [name for name in dict.fromkeys(chosen.experiment) if not RUNS[name]()]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
