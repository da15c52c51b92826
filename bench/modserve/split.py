"""Figure 18: the 99th percentile of TTFT by split of instances and share of requests with pictures, on 64 GPUs."""

from bench.modserve.stages import MODELS, Traffic, stages_of
from bench.modserve.systems import MONOLITH, WHOLE, capacity, seen

SPLITS = ((4, 48), (6, 40), (8, 32), (10, 24), (12, 16))
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
LOAD = 0.5
"""Of what the monoliths' work allows of the trace's mix; the paper does not say its load."""
COUNT = 2000


def run() -> bool:
    """Print seconds. The paper: lower than the monolith's down to 10:24, up to 18.4 and 9.2 times; 12:16 is worse."""
    alone = MONOLITH.split(16, 0)
    for name in MODELS:
        load = LOAD * capacity(alone, Traffic(stages_of(name)))
        heads = "".join(f"{texts}:{encoders:<5}".rjust(10) for texts, encoders in SPLITS)
        print(f"{name}: p99 of TTFT in s at {load:.0f} requests/s\n{'pictures':>9}{'monolith':>10}{heads}{'best':>14}")
        for share in SHARES:
            traffic = Traffic(stages_of(name), image_share=share)
            monolith = seen(alone, traffic, load, COUNT).p99_s
            apart = [seen(WHOLE.split(*split), traffic, load, COUNT).p99_s for split in SPLITS]
            times = f"{monolith / min(apart):.1f} times"
            print(f"{share:9.0%}{monolith:10.2f}" + "".join(f"{each:10.2f}" for each in apart) + f"{times:>14}")
    return True
