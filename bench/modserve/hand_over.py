"""Figures 19 and 20: encoders apart where prefill and decode are apart already, and what rows take on their way."""

import numpy as np

from bench.modserve.stages import GPU, MODELS, Traffic, stages_of
from bench.modserve.systems import MONOLITH, WHOLE, System, capacity, seen

PREFILL_GPUS = 8
TOGETHER = System("prefill with encoders", MONOLITH.dispatch, 4, 0, PREFILL_GPUS)
APART = System("encoders apart", WHOLE.dispatch, 3, 8, PREFILL_GPUS)
LOADS = (0.2, 0.4, 0.6, 0.8, 0.9)
MEDIA = {"RDMA over InfiniBand": (0.0, 0.0005), "TCP over Ethernet, 100 Gbit/s a server": (0.7 * 100e9 / 8 / 8, 0.05)}
"""(bytes/s of each member, 0: its card's; seconds of a pull beside its bytes)."""
COUNT = 2000


def prefill() -> bool:
    """Figure 19: InternVL on 32 GPUs, 4 prefill instances TP-8 against 3 and 8 encoders; decode is elsewhere."""
    traffic = Traffic(stages_of("InternVL 26B"), answers=False)
    most = capacity(TOGETHER, traffic)
    print(f"InternVL 26B on 32 {GPU}, first tokens alone: TTFT mean, p90 in s")
    print(f"{'requests/s':>12}{TOGETHER.name:>24}{APART.name:>24}{'mean':>8}{'p90':>7}")
    for load in LOADS:
        one, other = (seen(system, traffic, load * most, COUNT).ttft_s for system in (TOGETHER, APART))
        means, p90 = (one.mean(), other.mean()), tuple(np.percentile(each, 90) for each in (one, other))
        print(f"{load * most:12.1f}{means[0]:16.3f},{p90[0]:7.3f}{means[1]:16.3f},{p90[1]:7.3f}"
              f"{means[0] / means[1]:8.2f}{p90[0] / p90[1]:7.2f}")  # fmt: skip
    print("the paper: up to 2.8 times in the mean, 3.2 times at p90, more as load grows")
    return True


def media() -> bool:
    """Figure 20: what a pull takes, and what TTFT keeps of its gain over TCP."""
    print(f"{'model':16}{'medium':40}{'pull p50, p99 in ms':>22}{'TTFT mean, p99':>20}")
    for name in MODELS:
        stages = stages_of(name)
        traffic = Traffic(stages)
        load = 0.5 * capacity(MONOLITH, traffic)
        for medium, (bytes_per_s, latency_s) in MEDIA.items():
            done = WHOLE.serve(stages, traffic.requests(load, COUNT), stages.link(bytes_per_s, latency_s))
            pulled = np.array([each.pulled_s - each.encoded_s for each in done if each.images]) * 1000
            ttft = np.array([each.ttft_s for each in done])
            times = f"{np.percentile(pulled, 50):.1f}, {np.percentile(pulled, 99):.1f}"
            print(f"{name:16}{medium:40}{times:>22}{ttft.mean():12.3f},{np.percentile(ttft, 99):7.3f}")
        alone = seen(MONOLITH, traffic, load, COUNT)
        print(f"{name:16}{'monolith':62}{alone.mean_s:12.3f},{alone.p99_s:7.3f}")
    print("the paper: RDMA p99 5 ms, TCP p50 100 ms and p99 180 ms; TTFT over TCP 35 % lower than the monolith's at "
          "high load (InfiniBand 46 %)")  # fmt: skip
    return True
