"""What a certificate says of a pool of unlike instances against long simulations that it has not seen.

    python -m bench.certificate_pools [--pools 200] [--first 0] [--seeds 4]

Each pool (`bench.random_pools`) is at its own utilisation, 0.3 to 0.95 of what its prefill instances are certified for.
Its certificate is that of a plan (`control.simulator.attainment`: 24,000 requests, lengths as often as the workload has
them, seed 0). The simulations against it have other seeds and draw each length by itself; their mean is taken as the
truth.

At the percentile are the (pool, class) of which the certificate or the truth is within a point of the percentile or
above it; below, a queue grows for as long as one looks, and neither figure is one that a plan is made by. Exits with 1
where one of them differs by more than 1 point, or is optimistic by more than 0.5.
"""

import argparse
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import fmean

from bench.dispatch_pools import SEED
from bench.random_pools import Pools
from bench.scenarios import set_up
from control.planning.recipe import Recipe
from control.simulator.attainment import SimulatedAttainment
from templates_lib.values.plan import Attained

SETUPS = ("core", "extended")
WITHIN, OPTIMISTIC = 0.01, 0.005


@dataclass(frozen=True, slots=True)
class Compared:
    """One work class of a pool."""

    certified: Attained
    truth: float

    @property
    def optimism(self) -> float:
        return self.certified.share - self.truth

    @property
    def is_at_percentile(self) -> bool:
        return max(self.certified.share, self.truth) >= self.certified.percentile / 100 - WITHIN

    @property
    def is_met(self) -> bool:
        return -WITHIN <= self.optimism <= OPTIMISTIC


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first pool")
    parser.add_argument("--seeds", type=int, default=4, help="simulations that the certificate has not seen")
    given = parser.parse_args()
    found: list[Compared] = []
    with ExitStack() as opened:
        setups = [opened.enter_context(set_up(name, keep=True)) for name in SETUPS]
        pools, runs = Pools(setups, SEED), dict[str, list[SimulatedAttainment]]()
        for made in setups:
            recipe = made.recording.recipe
            assert isinstance(recipe, Recipe)
            unseen = (SimulatedAttainment(recipe, made.templates, SEED + n, False) for n in range(given.seeds))
            runs[made.name] = [SimulatedAttainment(recipe, made.templates), *unseen]
        for number in range(given.first, given.first + given.pools):
            pool, made = pools.draw(number)
            certified, *seen = (run(pool.plan, made.snapshot) for run in runs[made.name])
            own = {name: Compared(each, fmean(one[name].share for one in seen)) for name, each in certified.items()}
            found += own.values()
            shares = ", ".join(f"{100 * c.certified.share:6.2f} {100 * c.truth:6.2f}" for c in own.values())
            print(f"{number:4} at {pool.utilisation:.2f}: {shares} {pool.text}", flush=True)
    return report(found)


def report(found: list[Compared]) -> int:
    at = [each for each in found if each.is_at_percentile]
    for name, some in (("all", found), ("at the percentile", at)):
        optimism = sorted(100 * each.optimism for each in some)
        print(
            f"{name}: {len(some)} (pool, class); certificate less truth, points: {optimism[0]:.2f} to "
            f"{optimism[-1]:.2f}, mean {fmean(optimism):.3f}, {sum(each.is_met for each in some)} within the bar"
        )
    kept = [each for each in found if each.certified.is_kept]
    true = sum(each.truth >= each.certified.percentile / 100 for each in kept)
    print(f"{len(kept)} certified as kept, of which {true} keep the percentile in truth")
    is_met = all(each.is_met for each in at)
    print(
        f"bar {100 * WITHIN:g} point, optimistic by {100 * OPTIMISTIC:g} at the most: {'met' if is_met else 'MISSED'}"
    )
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main())
