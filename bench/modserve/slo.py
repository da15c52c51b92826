"""Figures 15 and 17: highest load in SLO, by servers and by SLO factor, and the table of ratios over factors and
numbers of pictures."""

from bench.modserve.stages import MODELS, Traffic, stages_of
from bench.modserve.systems import MONOLITH, PERCENTILE, WHOLE, System, capacity, highest_load, seen

FACTORS = (2.0, 5.0, 10.0, 20.0, 40.0)
CAPS = (1, 4, 16)
SERVERS = (4, 8, 12, 16)
SPLITS = ((20, 48), (24, 32), (28, 16))
"""Text instances of four GPUs, encoders of one, on 128 GPUs: what a plan chooses among."""
STEP, STEPS = 1.2, 17
"""Loads that are tried of the table, the highest one half as much again as the monoliths' work allows."""
COUNT = 1500
PAPER_15 = {"Llama 3.2 11B": 3.3, "InternVL 26B": 5.5}
PAPER_17 = {"Llama 3.2 11B": 4.3, "InternVL 26B": 6.8}
FACTOR = 10.0


def servers() -> bool:
    """Figure 15: 4 to 16 servers of 8 GPUs, at the paper's ratio of instances."""
    print(f"highest requests/s with 99 % within {FACTOR:g} times what a request takes alone, up to 16 pictures")
    print(f"{'model':16}{'servers':>8}{'monolith':>10}{'20:48':>10}{'ratio':>8}  paper")
    for name in MODELS:
        traffic = Traffic(stages_of(name))
        for number in SERVERS:
            share = number / 16
            alone = highest_load(_scaled(MONOLITH, share), traffic, FACTOR)
            whole = highest_load(_scaled(WHOLE, share), traffic, FACTOR)
            print(f"{name:16}{number:8}{alone:10.1f}{whole:10.1f}{_ratio(whole, alone):>8}  {PAPER_15[name]:g}")
    return True


def factors() -> bool:
    """Figure 17 and the table of ratios. Tells whether the best split beats the monolith wherever that serves at
    all."""
    met = True
    print("highest requests/s on 128 GPUs with 99 % within FACTOR times what a request takes alone")
    columns = f"{'monolith':>10}{'20:48':>10}{'best split':>12}{'':>8}{'20:48 / m':>11}{'best / m':>10}"
    print(f"{'model':16}{'pictures':>9}{'factor':>7}{columns}")
    for name in MODELS:
        for cap in CAPS:
            traffic = Traffic(stages_of(name), most_images=cap)
            for factor in FACTORS:
                alone = _highest(MONOLITH, traffic, factor)
                loads = {split: _highest(WHOLE.split(*split), traffic, factor) for split in SPLITS}
                best = max(loads, key=loads.__getitem__)
                met = met and (not alone or loads[best] > alone)
                ratios = f"{_ratio(loads[20, 48], alone):>11}{_ratio(loads[best], alone):>10}"
                print(f"{name:16}{cap:9}{factor:7g}{alone:10.1f}{loads[20, 48]:10.1f}{loads[best]:12.1f}"
                      f"{_split(*best):>8}{ratios}")  # fmt: skip
        print(f"  paper, figure 17: up to {PAPER_17[name]:g} times the monolith's")
    print(
        "the best split beats the monolith wherever that serves"
        if met
        else "MISSED: the monolith serves more somewhere"
    )
    return met


def _highest(system: System, traffic: Traffic, factor: float) -> float:
    """The highest of the loads that are tried up to which 99 % are in time; 0: none. Each load is served once for all
    factors."""
    most = 1.5 * capacity(MONOLITH, traffic)
    found = 0.0
    for step in range(STEPS - 1, -1, -1):
        load = most / STEP**step
        if seen(system, traffic, load, COUNT).attained(traffic.stages, factor) < PERCENTILE / 100:
            break
        found = load
    return found


def _split(texts: int, encoders: int) -> str:
    return f"{texts}:{encoders}"


def _scaled(system: System, share: float) -> System:
    return system.split(round(system.texts * share), round(system.encoders * share))


def _ratio(whole: float, alone: float) -> str:
    return f"{whole / alone:.2f}" if alone else "inf" if whole else "-"
