"""How many blocks of the common KV cache each member of a shared unit may hold (MuxServe, section 3.3).

Quotas begin as the members' requests need blocks: by rate times blocks of a request, so that the use of blocks over
rates is equal (R of equation 2). Every `PERIOD_S` blocks go from members that leave many unused to those that are short
of them. All of it is arithmetic on whole blocks: quotas always add up to the pool.
"""

from collections.abc import Sequence
from dataclasses import dataclass

PERIOD_S = 8.0
"""Seconds between two adaptations (the authors' code)."""
BUSY = 0.9
"""A member that used less of its quota can give blocks, and one that used as much can be short of them."""
KEPT = 0.95
"""Most of its quota that a member uses after it has given blocks."""

STEP = 0.1
"""Most that moves in one period, as a share of all quotas."""


@dataclass(frozen=True, slots=True)
class BlockDemand:
    """What a member is expected to need."""

    requests_per_s: float
    blocks_per_request: float
    """Of a mean request at its longest."""
    least: int
    """Blocks of its longest request: with fewer it could not be served at all."""


@dataclass(frozen=True, slots=True)
class BlockUse:
    """What a member did with its quota in a period."""

    quota: int
    used: int
    """The most blocks that it held at once."""
    short_of: int
    """Blocks of requests that wait for a place; 0 where none does."""
    least: int
    """As of `BlockDemand`."""


def initial_quotas(pool: int, demands: Sequence[BlockDemand]) -> tuple[int, ...]:
    """Split a pool of blocks by rate times blocks of a request, nobody getting less than one longest request.

    Raises ValueError where the pool does not hold one longest request of each.
    """
    lacking = sum(demand.least for demand in demands) - pool
    if lacking > 0:
        raise ValueError(f"a pool of {pool} blocks is {lacking} short of one longest request of each member")
    weights = [demand.requests_per_s * demand.blocks_per_request for demand in demands]
    if not any(weights):  # nothing is planned of any: quotas add up to the pool all the same
        weights = [float(demand.least) for demand in demands]
    floor = [False] * len(demands)
    while True:  # who would get less than its least gets that, and the others share what is left
        left = pool - sum(demand.least for demand, held in zip(demands, floor, strict=True) if held)
        shares = split(left, [0.0 if held else weight for weight, held in zip(weights, floor, strict=True)])
        short = [not held and share < d.least for share, held, d in zip(shares, floor, demands, strict=True)]
        if not any(short):
            return tuple(d.least if held else share for share, held, d in zip(shares, floor, demands, strict=True))
        floor = [held or now for held, now in zip(floor, short, strict=True)]


def adapted_quotas(uses: Sequence[BlockUse]) -> tuple[int, ...]:
    """Move blocks from members with unused ones to those that used theirs and still let requests wait.

    A member keeps the most that it used and a twentieth more, and never less than one longest request; nobody gets more
    than its requests wait for. Quotas add up to what they did.

    (In the authors' code a quota grows by a tenth of itself at most, which takes a minute to double one. Here a tenth
    of the pool moves at most: a member that gets all at once keeps it for as long as its requests last.)
    """
    spare = [_spare(use) for use in uses]
    wanted = [_wanted(use) for use in uses]
    moved = min(sum(spare), sum(wanted), int(STEP * sum(use.quota for use in uses)))
    given, got = split(moved, spare), split(moved, wanted)
    return tuple(use.quota - less + more for use, less, more in zip(uses, given, got, strict=True))


def _spare(use: BlockUse) -> int:
    if use.short_of or use.used >= BUSY * use.quota:
        return 0
    return max(0, use.quota - max(use.least, int(-(-use.used // KEPT))))


def _wanted(use: BlockUse) -> int:
    if not use.short_of or use.used < BUSY * use.quota:
        return 0
    return use.short_of


def split(amount: int, weights: Sequence[float]) -> list[int]:
    """Split a whole amount in proportion to weights, by largest remainders; equal ones in order. Of whole weights that
    add up to no less than the amount, none gets more than its weight."""
    total = sum(weights)
    if not total:
        return [0] * len(weights)
    exact = [amount * weight / total for weight in weights]
    found = [int(each) for each in exact]
    by_rest = sorted(range(len(weights)), key=lambda i: (found[i] - exact[i], i))
    for i in by_rest[: amount - sum(found)]:
        found[i] += 1
    return found
