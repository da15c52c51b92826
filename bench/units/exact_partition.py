"""The best units that there are: every way to put models together, on meshes of every size."""

from collections.abc import Sequence
from functools import cache

from policies.shared_units.placed_unit import UnitEstimates, UnitModel


def most_requests_per_s(models: Sequence[UnitModel], gpus: int, largest: int, estimates: UnitEstimates) -> float | None:
    """Requests/s of the best partition of `models` over `gpus` GPUs, in meshes of powers of two up to `largest`; GPUs
    may be left over. None where they do not hold all models."""
    sizes = [size for size in (1, 2, 4, 8, 16) if size <= largest]

    @cache
    def of_unit(members: frozenset[int], size: int) -> float | None:
        return estimates.requests_per_s(size, [models[i] for i in sorted(members)])

    @cache
    def best(left: frozenset[int], free: int) -> float | None:
        """Of the models `left` on `free` GPUs; the first of them is in the next unit."""
        if not left:
            return 0.0
        first, *others = sorted(left)
        found = None
        for chosen in range(1 << len(others)):
            members = frozenset([first, *(m for i, m in enumerate(others) if chosen >> i & 1)])
            for size in sizes:
                here = of_unit(members, size) if size <= free else None
                rest = best(left - members, free - size) if here is not None else None
                if here is not None and rest is not None and (found is None or here + rest > found):
                    found = here + rest
        return found

    return best(frozenset(range(len(models))), gpus)
