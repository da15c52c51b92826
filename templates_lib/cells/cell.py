"""Efficient cells, and mixtures of them for a budget or a target (Cornserve, section 4.3, Algorithms 1 and 2)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from templates_lib.cells.network_design import SLACK, CellPlan, most_requests
from templates_lib.cells.problem import CellProblem


@dataclass(frozen=True, slots=True)
class Cell:
    gpus: int
    """A power of two."""
    requests_per_s: float
    """Of the mix that it was planned for."""


@dataclass(frozen=True, slots=True)
class Mixture:
    counts: Mapping[int, int]
    """GPUs of a cell → how many of them."""
    requests_per_s: float
    gpus: int


@dataclass(frozen=True, slots=True)
class MixtureChange:
    """What a new mixture changes: equal cells go on."""

    kept: Mapping[int, int]
    spawned: Mapping[int, int]
    ended: Mapping[int, int]


def plan_cells(problem: CellProblem, largest: int) -> tuple[CellPlan, ...]:
    """The best plan of each size 1, 2, 4 ... up to `largest` GPUs (Algorithm 1, first half)."""
    plans = []
    size = 1
    while size <= largest:
        plans.append(most_requests(problem, size))
        size *= 2
    return tuple(plans)


def efficient(requests_per_s: Sequence[float]) -> tuple[Cell, ...]:
    """The cells of 1, 2, 4 ... GPUs that serve more than the largest efficient one before them does on as many GPUs
    (Algorithm 1, second half).

    A size that serves nothing is no cell, though the paper would keep the first: Algorithm 2 would add it for ever.
    """
    kept: list[Cell] = []
    for exponent, served in enumerate(requests_per_s):
        size = 2**exponent
        before = kept[-1] if kept else None
        least = before.requests_per_s * (size // before.gpus) if before is not None else 0.0
        if served > least * (1 + SLACK):
            kept.append(Cell(size, served))
    return tuple(kept)


def best_mixture(cells: Sequence[Cell], budget: int) -> Mixture:
    """The most requests/s within `budget` GPUs: as many as fit of each efficient cell, from the largest down.

    This is the binary decomposition of the budget. It is optimal, since sizes divide each other: of cells smaller than
    the largest that together have as many GPUs or more, some have just as many, and serve no more.
    """
    counts: dict[int, int] = {}
    left = budget
    for cell in sorted(cells, key=lambda c: -c.gpus):
        if count := left // cell.gpus:
            counts[cell.gpus], left = count, left % cell.gpus
    return _mixture(cells, counts)


def greedy_mixture(cells: Sequence[Cell], requests_per_s: float) -> Mixture:
    """Algorithm 2, as printed: the largest cell that serves no more than is left, and the smallest in the end.

    The paper calls it optimal. It is not: of cells that serve 1.0, 2.1 and 4.4 on 1, 2 and 4 GPUs it takes 5 GPUs for
    4.3 requests/s. Raises ValueError without cells.
    """
    _need(cells, requests_per_s)
    counts: Counter[int] = Counter()
    smallest = min(cells, key=lambda c: c.gpus)
    left = requests_per_s
    while left > requests_per_s * SLACK:
        fitting = [cell for cell in cells if cell.requests_per_s <= left * (1 + SLACK)]
        chosen = max(fitting, key=lambda c: c.gpus, default=smallest)
        # As many at once as the loop would take one by one.
        count = max(int(left * (1 + SLACK) / chosen.requests_per_s), 1)
        counts[chosen.gpus] += count
        left -= count * chosen.requests_per_s
    return _mixture(cells, counts)


def exact_mixture(cells: Sequence[Cell], requests_per_s: float) -> Mixture:
    """The fewest GPUs that serve `requests_per_s`, of efficient cells.

    What `best_mixture` serves does not fall with the budget, so the least budget that serves enough is found by
    halving, in O(log² GPUs) steps. Raises ValueError without cells.
    """
    _need(cells, requests_per_s)
    target = requests_per_s * (1 - SLACK)
    largest = max(cells, key=lambda c: c.gpus)
    low, high = 0, largest.gpus * (int(requests_per_s / largest.requests_per_s) + 1)
    while low < high:
        middle = (low + high) // 2
        if best_mixture(cells, middle).requests_per_s >= target:
            high = middle
        else:
            low = middle + 1
    return best_mixture(cells, high)


def change(before: Mixture, after: Mixture) -> MixtureChange:
    """What to spawn and what to end so that `after` runs where `before` did."""
    old, new = Counter(before.counts), Counter(after.counts)
    return MixtureChange(dict(old & new), dict(new - old), dict(old - new))


def _need(cells: Sequence[Cell], requests_per_s: float) -> None:
    if not cells:
        raise ValueError("no cell serves any request: plan larger ones, or other deployment options")
    if not 0 <= requests_per_s < float("inf"):
        raise ValueError(f"cannot serve {requests_per_s} requests/s: say a number that is not negative")


def _mixture(cells: Sequence[Cell], counts: Mapping[int, int]) -> Mixture:
    rate = {cell.gpus: cell.requests_per_s for cell in cells}
    served = sum(count * rate[size] for size, count in counts.items())
    return Mixture(dict(counts), served, sum(size * count for size, count in counts.items()))
