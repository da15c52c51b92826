"""The best step of one phase on one split: a coarse grid, then exact refinement between its last two levels."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost_model import Floats
from templates_lib.throughput.operation import PhaseWork, Work
from templates_lib.throughput.request_cache import BLOCK_TOKENS

REFINEMENTS = 2
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The best step for every (role, budget, layer count): arrays (4, B, L); units_per_s 0 where there is none."""

    units_per_s: Floats
    requests: Floats
    prompt_tokens: Floats
    kv_blocks: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """A step for each (role, budget, layer count) and how far it is from what limits it; arrays (4, B, L, 1)."""

    requests: Floats
    prompt_tokens: Floats
    latency_s: Floats
    shares: Floats

    def where(self, use: NDArray[np.bool_], other: "_Point") -> "_Point":
        return _Point(
            np.where(use, self.requests, other.requests),
            np.where(use, self.prompt_tokens, other.prompt_tokens),
            np.where(use, self.latency_s, other.latency_s),
            np.where(use, self.shares, other.shares),
        )


def best_steps(phase: PhaseWork, budgets_s: Floats) -> Best:
    """The step of most units/s within each of `budgets_s` (B,), among steps that no smaller level forbids."""
    grid = phase.levels()
    operation = phase.operate(grid)
    latency = np.maximum.accumulate(operation.latency_s, axis=-1)
    shares = np.maximum.accumulate(operation.shares, axis=-1)
    units, at = _running_best(operation.units_per_s)
    budgets = budgets_s[:, None, None]
    last = np.stack([(np.where(shares <= 1, latency, np.inf) <= b).sum(axis=-1) for b in budgets_s], axis=1) - 1

    def of_level(values: NDArray[Number], level: NDArray[np.int64]) -> NDArray[Number]:
        """(4 | 1, V | 1, L | 1, N | 1) at `level` (4, B, V, L)."""
        full = np.broadcast_to(values, latency.shape)[:, None]
        full = np.broadcast_to(full, (*level.shape, latency.shape[-1]))
        return np.take_along_axis(full, level[..., None], axis=-1)[..., 0]

    lower = last.clip(0)
    rate = np.where(last >= 0, of_level(units, lower), 0.0)
    variant = rate.argmax(axis=2)[:, :, None, :]

    def chosen(values: Floats) -> Floats:
        """(4, B, V, L) at the best variant → (4, B, L, 1)."""
        return np.take_along_axis(values, variant, axis=2)[:, :, 0, :, None]

    upper = (last + 1).clip(max=latency.shape[-1] - 1)
    ends = [
        _Point(*(chosen(of_level(v, level)) for v in (grid.requests, grid.prompt_tokens, latency, shares)))
        for level in (lower, upper)
    ]
    best_level = of_level(at, lower)
    best_rate = chosen(rate)
    requests, prompts = (chosen(of_level(v, best_level)) for v in (grid.requests, grid.prompt_tokens))
    low, high = ends
    for _ in range(REFINEMENTS):
        work = _between(phase, low, high, budgets[None])
        tried = phase.operate(work)
        point = _Point(work.requests, work.prompt_tokens, tried.latency_s, tried.shares)
        holds = (best_rate > 0) & (point.latency_s <= budgets) & (point.shares <= 1)
        better = holds & (tried.units_per_s > best_rate)
        best_rate = np.where(better, tried.units_per_s, best_rate)
        requests, prompts = np.where(better, work.requests, requests), np.where(better, work.prompt_tokens, prompts)
        low, high = point.where(holds, low), high.where(holds, point)
    blocks = phase.split.memory.kv_blocks(phase.kv_free_bytes(Work(requests, prompts)), BLOCK_TOKENS)
    return Best(best_rate[..., 0], requests[..., 0], prompts[..., 0], blocks[..., 0])


def least_latency_s(phase: PhaseWork) -> Floats:
    """(4, L): the shortest latency at which a node can work at all; infinite where it cannot."""
    operation = phase.operate(phase.levels())
    works = (operation.shares <= 1) & (operation.units_per_s > 0)
    return np.asarray(np.where(works, operation.latency_s, np.inf).min(axis=(1, 3)))


def _running_best(units: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The best rate among the levels up to each, and the first level that has it."""
    best = np.maximum.accumulate(units, axis=-1)
    rises = np.diff(best, axis=-1, prepend=0.0) > 0
    return best, np.maximum.accumulate(np.where(rises, np.arange(units.shape[-1]), 0), axis=-1)


def _between(phase: PhaseWork, low: _Point, high: _Point, budgets_s: Floats) -> Work:
    """The step between `low` (feasible) and `high` where a straight line meets the first limit, in whole units."""
    reach = np.minimum(
        _crossing(low.latency_s, high.latency_s, budgets_s), _crossing(low.shares, high.shares, np.array(1.0))
    )
    quantum = phase.split.parallel.dp

    def step(start: Floats, end: Floats) -> Floats:
        return np.asarray(start + np.floor((end - start) * reach / quantum) * quantum)

    return Work(step(low.requests, high.requests), step(low.prompt_tokens, high.prompt_tokens))


def _crossing(low: Floats, high: Floats, limit: Floats) -> Floats:
    """Where between 0 (low) and 1 (high) a straight line meets `limit`; the middle where `high` is infinite."""
    finite = np.isfinite(low) & np.isfinite(high)
    start = np.where(finite, low, 0.0)
    rise = np.where(finite, high, 0.0) - start
    at = np.where(rise > 0, (limit - start) / np.where(rise > 0, rise, 1.0), 1.0)
    return np.asarray(np.where(finite, at, 0.5).clip(0, 1))
