"""Figure 14: TTFT by load on 128 A100s without autoscaling, and what each step of the ablation brings."""

from itertools import pairwise

import numpy as np

from bench.modserve.stages import MODELS, Traffic, stages_of
from bench.modserve.systems import ABLATION, MONOLITH, Seen, capacity, seen

SHARES = (0.2, 0.4, 0.6, 0.8, 0.9)
"""Loads, in what the monoliths' work allows at most."""
PAPER = {"Llama 3.2 11B": (27, 42), "InternVL 26B": (46, 47)}
"""Decoupling: percent off the mean and the 99th percentile."""
PAPER_SCHED, PAPER_ROUTING = (12, 25), (14, 32)
RISE = 1.02
"""By how much the 99th percentile of 3,055 requests may be higher by chance: thirty of them are above it."""


def run() -> bool:
    """Print mean and 99th percentile. Tells whether the 99th percentile rises from no step to the next at any load."""
    met = True
    for name in MODELS:
        traffic = Traffic(stages_of(name))
        most = capacity(MONOLITH, traffic)
        print(f"{name}: TTFT mean, p99 in s on 128 A100s (monolith 32 x TP-4; 20 text TP-4 + 48 image TP-1)")
        print(f"{'requests/s':>12}" + "".join(f"{each.name:>20}" for each in ABLATION))
        table: list[list[Seen]] = []
        for share in SHARES:
            row = [seen(each, traffic, share * most) for each in ABLATION]
            table.append(row)
            print(f"{share * most:12.0f}" + "".join(f"{each.mean_s:12.3f},{each.p99_s:7.3f}" for each in row))
            met = met and all(b.p99_s <= RISE * a.p99_s for a, b in pairwise(row[1:]))
        for place, paper in ((1, PAPER[name]), (2, PAPER_SCHED), (3, PAPER_ROUTING)):
            mean = [1 - row[place].mean_s / row[place - 1].mean_s for row in table]
            p99 = [1 - row[place].p99_s / row[place - 1].p99_s for row in table]
            print(f"  {ABLATION[place].name:14} mean {_range(mean)}, p99 {_range(p99)} lower (paper -{paper[0]} %, "
                  f"-{paper[1]} %)")  # fmt: skip
    print("p99 never rises from decoupled to + scheduling to + routing" if met else "p99 RISES somewhere")
    return met


def _range(values: list[float]) -> str:
    return f"{np.mean(values):.0%} ({min(values):.0%} to {max(values):.0%})"
