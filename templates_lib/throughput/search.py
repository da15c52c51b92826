"""The best step of one phase on one split: a coarse grid, then refinement between its last two levels."""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from templates_lib.ports.cost_model import Floats
from templates_lib.throughput.operation import StepLoad, StepWork
from templates_lib.throughput.request_cache import BLOCK_TOKENS

REFINEMENTS = 2
PROMISING = 4
"""Number of variants (chunks) that are refined: the one that promises most often turns out not to be the best."""
PLATEAU = 0.01
"""Relative difference below which rates count as equal; the largest step of equal rates is taken. Where memory bounds
the rate, a larger step brings no more, but in a pipeline whose groups are no larger than the least batch of a stage
(`lockstep-v1`), a small one would keep other stages from theirs."""
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
    """A step for each (role, budget, variant, layer count), and what it does; `shares` as in `NodeOperation`."""

    requests: Floats
    prompt_tokens: Floats
    latency_s: Floats
    shares: Floats
    units_per_s: Floats
    in_groups_per_s: Floats
    """Units/s with such groups, each once a budget: what steps are chosen by. No more than `units_per_s`."""

    @property
    def values(self) -> tuple[Floats, ...]:
        return (
            self.requests,
            self.prompt_tokens,
            self.latency_s,
            self.shares,
            self.units_per_s,
            self.in_groups_per_s,
        )

    def where(self, use: NDArray[np.bool_], other: "_Point") -> "_Point":
        return _Point(*(np.where(use, a, b) for a, b in zip(self.values, other.values, strict=True)))

    def of_variants(self, chosen: NDArray[np.int64]) -> "_Point":
        """(4, B · V, L, 1) → (4, B · K, L, 1): of each budget the variants `chosen` (4, B, K, L)."""
        roles, budgets, _, layers = chosen.shape
        split = (v.reshape(roles, budgets, -1, layers) for v in self.values)
        taken = (np.take_along_axis(v, chosen, axis=2) for v in split)
        return _Point(*(v.reshape(roles, -1, layers, 1) for v in taken))


def best_steps(phase: StepWork, budgets_s: Floats) -> Best:
    """The step of most units/s within each of `budgets_s` (B,), among steps that no smaller level forbids."""
    grid = phase.levels()
    operation = phase.operate(grid)
    latency = np.maximum.accumulate(np.where(phase.split.possible, operation.latency_s, np.inf), axis=-1)
    shares = np.maximum.accumulate(operation.shares, axis=-1)
    within = np.where(shares <= 1, latency, np.inf)
    last = np.stack([(within <= budget).sum(axis=-1) for budget in budgets_s], axis=1) - 1
    each, of_groups = operation.units_per_s[:, None], operation.units_per_step[:, None]
    in_groups = np.minimum(each, of_groups / budgets_s[:, None, None, None])
    roles, _, variants, layers = last.shape
    kept = min(variants, PROMISING)

    def at(level: NDArray[np.int64]) -> _Point:
        alike = (np.broadcast_to(v, latency.shape) for v in (grid.requests, grid.prompt_tokens, latency, shares))
        every = (*(v[:, None] for v in alike), each, in_groups)
        return _Point(*(_of_level(v, level).reshape(roles, -1, layers, 1) for v in every))

    lower = last.clip(0)
    low, high = at(lower), at((last + 1).clip(max=latency.shape[-1] - 1))
    best = at(_largest_of_the_best(in_groups, lower))
    reach = _reach(low, high, np.repeat(budgets_s, variants)[:, None, None])
    hoped = (low.in_groups_per_s + reach * (high.in_groups_per_s - low.in_groups_per_s)).reshape(last.shape)
    promising = np.argsort(np.where(last >= 0, -hoped, 0.0), axis=2, kind="stable")[:, :, :kept]
    low, high, best = (point.of_variants(promising) for point in (low, high, best))
    feasible = np.take_along_axis(last, promising, axis=2).reshape(roles, -1, layers, 1) >= 0
    budgets = np.repeat(budgets_s, kept)[:, None, None]
    for _ in range(REFINEMENTS):
        tried = _between(phase, low, high, budgets)
        holds = feasible & (tried.latency_s <= budgets) & (tried.shares <= 1)
        best = tried.where(holds & (tried.in_groups_per_s > best.in_groups_per_s), best)
        low, high = tried.where(holds, low), high.where(holds, tried)
    best = replace(best, units_per_s=np.where(feasible, best.units_per_s, 0.0))
    best = best.of_variants(best.units_per_s.reshape(promising.shape).argmax(axis=2)[:, :, None])
    blocks = phase.split.memory.kv_blocks(
        phase.kv_free_bytes(StepLoad(best.requests, best.prompt_tokens)), BLOCK_TOKENS
    )
    return Best(best.units_per_s[..., 0], best.requests[..., 0], best.prompt_tokens[..., 0], blocks[..., 0])


def least_latency_s(phase: StepWork) -> Floats:
    """(4, L): the shortest latency at which a node can work at all; infinite where it cannot."""
    operation = phase.operate(phase.levels())
    works = phase.split.possible & (operation.shares <= 1) & (operation.units_per_s > 0)
    return np.asarray(np.where(works, operation.latency_s, np.inf).min(axis=(1, 3)))


def _largest_of_the_best(units: Floats, last: NDArray[np.int64]) -> NDArray[np.int64]:
    """(4, B, V, L): up to level `last` (4, B, V, L), the largest whose rate is about the best one's."""
    enough = (1 - PLATEAU) * _of_level(np.maximum.accumulate(units, axis=-1), last)
    level = np.zeros_like(last)
    for n in range(units.shape[-1]):
        level = np.where((n <= last) & (units[..., n] >= enough), n, level)
    return level


def _of_level(values: NDArray[Number], level: NDArray[np.int64]) -> NDArray[Number]:
    """`values`, which broadcast to (4, B, V, L, N), at `level` (4, B, V, L)."""
    full = np.broadcast_to(values, (*level.shape, values.shape[-1]))
    return np.take_along_axis(full, level[..., None], axis=-1)[..., 0]


def _between(phase: StepWork, low: _Point, high: _Point, budgets_s: Floats) -> _Point:
    """The step between `low` (feasible) and `high` where a straight line meets the first limit, in whole units."""
    reach, quantum = _reach(low, high, budgets_s), phase.split.parallel.dp

    def step(start: Floats, end: Floats) -> Floats:
        return np.asarray(start + np.floor((end - start) * reach / quantum) * quantum)

    work = StepLoad(step(low.requests, high.requests), step(low.prompt_tokens, high.prompt_tokens))
    tried = phase.operate(work)
    in_groups = np.minimum(tried.units_per_s, tried.units_per_step / budgets_s)
    return _Point(work.requests, work.prompt_tokens, tried.latency_s, tried.shares, tried.units_per_s, in_groups)


def _reach(low: _Point, high: _Point, budgets_s: Floats) -> Floats:
    """Return how far from `low` (0) to `high` (1) straight lines go until latency or a share meets its limit."""
    latency = _crossing(low.latency_s, high.latency_s, budgets_s)
    return np.minimum(latency, _crossing(low.shares, high.shares, np.array(1.0)))


def _crossing(low: Floats, high: Floats, limit: Floats) -> Floats:
    """Return where between 0 (low) and 1 (high) a straight line meets `limit`; the middle where one is infinite."""
    finite = np.isfinite(low) & np.isfinite(high)
    start = np.where(finite, low, 0.0)
    rise = np.where(finite, high, 0.0) - start
    at = np.where(rise > 0, (limit - start) / np.where(rise > 0, rise, 1.0), 1.0)
    return np.asarray(np.where(finite, at, 0.5).clip(0, 1))
