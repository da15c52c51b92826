"""A demand over its options (a route and a place where requests enter): one option, or a split over several.

Tables are over i = 0 … S: the cost of giving an option the i-th part of the demand.
"""

from dataclasses import dataclass

import numpy as np

from control.allocator.columns import Floats
from control.allocator.cover import Cover

Key = tuple[int, int]
"""(class, place)"""


@dataclass(frozen=True, slots=True)
class Option:
    way: int
    """The one that stays in the place; -1 where there is none."""
    usd: float
    """Least cost of any way that enters here, for the whole demand, prices on shared rows included."""
    load: tuple[tuple[Key, float], ...]
    """Share of the class's peak that the whole demand asks for in the place; the first leg first."""
    crossing_usd: float
    """Dollars more that it costs when the whole demand goes on elsewhere; +∞ where it cannot."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    options: tuple[Option, ...]
    tables: list[list[Floats]]
    """Tables by option and leg: least cost of every load."""
    whole: Floats
    """(options,) cost of giving an option everything."""
    parts: Floats
    """(options, S + 1) cost of giving an option more than i - 1 and at most i parts, from below."""
    least: float
    rest: Floats
    """(S + 1,) least cost of i parts over any options, from below; 0 for none."""


def index(share: float | Floats, parts: int, *, up: bool) -> Floats:
    scaled = np.asarray(share, dtype=np.float64) * parts
    return (np.ceil(scaled - 1e-7) if up else np.floor(scaled + 1e-7)).astype(np.int64)


def tables_of(option: Option, covers: dict[Key, Cover], *, crossing: bool) -> list[Floats]:
    """Return per leg the least cost of every load. With `crossing`, all but the first may send load elsewhere for its
    price.

    What enters here and goes on elsewhere costs `crossing_usd` once, however many legs it spares: each gets its share.
    """
    tables = [covers[key].least if key in covers else _nothing(covers) for key, _ in option.load]
    if not crossing or not np.isfinite(option.crossing_usd):
        return tables
    for leg, (_, load) in enumerate(option.load[1:], start=1):
        least = tables[leg]
        step = max(0.0, option.crossing_usd) / (load * (len(least) - 1) * (len(tables) - 1))
        ramp = step * np.arange(len(least))
        # One part is free: the load that remains may lie anywhere inside its part.
        spared = np.minimum.accumulate(least - ramp) + ramp - step
        tables[leg] = np.minimum(least, np.maximum(spared, 0.0))
    return tables


def _nothing(covers: dict[Key, Cover]) -> Floats:
    """The table of a class that cannot be had in a place."""
    table = np.full_like(next(iter(covers.values())).least, np.inf)
    table[0] = 0.0
    return table


def option_cost(option: Option, tables: list[Floats], share: Floats, *, up: bool) -> Floats:
    """Cost of an option at shares of the demand."""
    total = share * option.usd
    for table, (_, load) in zip(tables, option.load, strict=True):
        total = total + table[index(share * load, len(table) - 1, up=up)]
    return np.asarray(total)


def split_from_below(options: tuple[Option, ...], covers: dict[Key, Cover], splits: int) -> Split:
    """A lower bound on serving a demand: exact for one option, with splits rounded towards cheaper for several."""
    from control.allocator.kernels import added

    tables = [tables_of(o, covers, crossing=True) for o in options]
    every = list(zip(options, tables, strict=True))
    whole = np.array([option_cost(o, t, np.ones(1), up=False)[0] for o, t in every])
    grid = np.maximum(np.arange(splits + 1) - 1, 0) / splits
    parts = np.array([option_cost(o, t, grid, up=False) for o, t in every]).reshape(-1, splits + 1)
    one, several = np.full(splits + 1, np.inf), np.full(splits + 1, np.inf)
    for table in parts if len(options) > 1 else []:
        given = np.concatenate([[np.inf], table[1:]])
        several = np.minimum(several, added(np.minimum(one, several), given))
        one = np.minimum(one, given)
    rest = np.minimum(one, several)
    rest[0] = 0.0
    least = min(float(whole.min(initial=np.inf)), float(several[splits]))
    return Split(options, tables, whole, parts, least, np.minimum.accumulate(rest[::-1])[::-1])


def best_split(options: tuple[Option, ...], covers: dict[Key, Cover], splits: int) -> list[tuple[int, float]]:
    """(option, share) of the cheapest plan over one option or two, with loads rounded up; empty where none can."""
    grid = np.arange(splits + 1) / splits
    costs = [option_cost(o, tables_of(o, covers, crossing=False), grid, up=True) for o in options]
    tables = np.array(costs).reshape(-1, splits + 1)
    if not len(tables):
        return []
    best = int(tables[:, -1].argmin())
    cost, chosen = float(tables[best, -1]), [(best, 1.0)]
    for a in range(len(options)):
        for b in range(a + 1, len(options)):
            both = tables[a, 1:-1] + tables[b, -2:0:-1]
            i = int(both.argmin()) if len(both) else 0
            if len(both) and both[i] < cost - 1e-12:
                cost, chosen = float(both[i]), [(a, float(grid[i + 1])), (b, float(grid[splits - i - 1]))]
    return chosen if np.isfinite(cost) else []
