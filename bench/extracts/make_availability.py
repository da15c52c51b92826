"""Write examples/availability-{core,extended}-{normal,scarce}.csv.

    python -m bench.extracts.make_availability [core] [extended]

Nobody publishes the log that the Coral paper scaled. Normal: in every region, three times the nodes that any method
needs of a configuration when supply is not short, over balanced, large-heavy and small-heavy demand. Scarce: a seeded
pattern, scaled to the smallest supply that could still serve (1 + margin) times the demand; 25 % for core and 75 % for
extended, as in the paper. The pattern spreads GPUs over regions and GPU types by a log-normal draw (sigma 0.6; the
Alibaba inventory of 2026 also has its types within a factor of two of each other by GPUs) and equally over node sizes.
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.evaluation.scale_down import scale_demand
from bench.scenarios import EXAMPLES, SetUp, set_up, with_supply
from control.allocator import solve
from control.offers.availability import Availability
from policies.baselines import baseline, baselines_of
from templates_lib.values.settings import WorkLimits
from templates_lib.values.snapshot import Snapshot

MARGIN = {"core": 0.25, "extended": 0.75}
SEED = 20261121
UNLIMITED = 10_000
SPARE = 3
STEPS = 8
HASTY = WorkLimits(gap=0.1, nodes=200, simplex_iterations=50_000)


def main() -> None:
    for name in sys.argv[1:] or MARGIN:
        margin = MARGIN[name]
        with set_up(name) as made:
            ample = _supply(made.snapshot, dict.fromkeys(_places(made.snapshot), UNLIMITED))
            _write(f"availability-{name}-normal.csv", _normal(made, ample), f"{SPARE} x what any method needs")
            text = f"seed {SEED}, smallest supply that serves {1 + margin:g} x the demand"
            _write(f"availability-{name}-scarce.csv", _scarce(made, ample), text)


def _places(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    return sorted({(o.zone_id, o.node_config, o.market.value) for o in snapshot.offers})


def facts_of(nodes: dict[tuple[str, str, str], int], snapshot: Snapshot) -> tuple[Availability, ...]:
    markets = {o.market.value: o.market for o in snapshot.offers}
    return tuple(Availability(zone, config, markets[market], n) for (zone, config, market), n in nodes.items())


def _supply(snapshot: Snapshot, nodes: dict[tuple[str, str, str], int]) -> Snapshot:
    return with_supply(snapshot, facts_of(nodes, snapshot))


def _normal(made: SetUp, ample: Snapshot) -> dict[tuple[str, str, str], int]:
    needed: Counter[str] = Counter()
    for demand in made.demands().values():
        snapshot = with_supply(demand, facts_of(dict.fromkeys(_places(ample), UNLIMITED), ample))
        for make in (lambda s, lib, _: solve(s, lib), *map(baseline, baselines_of(made.templates.library))):
            plan = make(snapshot, made.templates.library, solve)
            used: Counter[str] = Counter()
            for offer in plan.offers:
                used[offer.node_config] += offer.nodes
            needed |= used
    return {key: SPARE * max(needed[key[1]], 1) for key in _places(ample)}


def _scarce(made: SetUp, ample: Snapshot) -> dict[tuple[str, str, str], int]:
    pattern = drawn_pattern(ample)
    wanted = scale_demand(ample, 1 + MARGIN[made.name])
    return scaled(pattern, least_scale(lambda scale: _serves(made, wanted, scaled(pattern, scale))))


def least_scale(serves: Callable[[float], bool]) -> float:
    """Return the least scale of a supply that serves, to a 256th of the doubling that first does."""
    low, high = 0.0, 1.0
    while not serves(high):
        low, high = high, 2 * high
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if serves(middle) else (middle, high)
    return high


def _serves(made: SetUp, snapshot: Snapshot, nodes: dict[tuple[str, str, str], int]) -> bool:
    """Whether a short search finds a fleet; the cost of that fleet does not matter here."""
    hasty = replace(snapshot, settings=replace(snapshot.settings, limits=HASTY))
    return not solve(_supply(hasty, nodes), made.templates.library).unmet


def drawn_pattern(snapshot: Snapshot) -> dict[tuple[str, str, str], float]:
    """GPUs of a type in a region by a log-normal draw, shared equally by its node sizes; values are nodes."""
    random = np.random.default_rng(SEED)
    pattern = {}
    places = _places(snapshot)
    for zone in sorted({p[0] for p in places}):
        for gpu in sorted({p[1].partition(":")[0] for p in places if p[0] == zone}):
            gpus = random.lognormal(0.0, 0.6)
            for place in places:
                if place[0] == zone and place[1].partition(":")[0] == gpu:
                    pattern[place] = gpus / int(place[1].partition(":")[2].partition("/")[0])
    return pattern


def scaled(pattern: dict[tuple[str, str, str], float], scale: float) -> dict[tuple[str, str, str], int]:
    return {place: round(weight * scale) for place, weight in pattern.items()}


def _write(name: str, nodes: dict[tuple[str, str, str], int], how: str) -> None:
    lines = [f"# {how}; made by bench/extracts/make_availability.py, 2026-11-21", "zone,config,market,available"]
    lines += [f"{zone},{config},{market},{n}" for (zone, config, market), n in sorted(nodes.items())]
    path = Path(EXAMPLES, name)
    path.write_text("\n".join(lines) + "\n")
    total = sum(n * int(c.partition(":")[2].partition("/")[0]) for (_, c, _), n in nodes.items())
    print(f"{path.name}: {len(nodes)} places, {sum(nodes.values())} nodes, {total} GPUs")


if __name__ == "__main__":
    main()
