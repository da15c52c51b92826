"""Random T̂ tables and bags of nodes for the placement tests."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Case:
    units: NDArray[np.float64]
    """(4 roles, B budgets, C configurations, L layers)"""
    nodes: tuple[int, ...]

    @property
    def counts(self) -> dict[int, int]:
        return {config: self.nodes.count(config) for config in self.nodes}


def _falling(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Random factors ≤ 1, falling along the last axis, with plateaus."""
    steps = np.where(rng.random(shape) < 0.3, 1.0, rng.uniform(0.55, 1.0, shape))
    return np.cumprod(steps, axis=-1)


def random_units(
    rng: np.random.Generator, configs: int, layers: int, budgets: int, *, looser_later: bool = False
) -> NDArray[np.float64]:
    """T̂ with the properties of a real table: falls with layers and with tighter budgets, ends where memory does.

    `looser_later`: budget b is b + 1 ticks (an uneven split); otherwise SLO / (b + 1).
    """
    per_layer = (1.0 + np.arange(layers)) ** -rng.uniform(0.3, 1.2)
    speed = rng.lognormal(3.0, 1.0, configs)
    middle = speed[None, :, None] * per_layer * _falling(rng, (budgets, configs, layers)) ** rng.uniform(0.0, 0.5)
    fits = rng.integers(0, layers + 1, (budgets, configs))
    middle = np.where(np.arange(layers) < np.sort(fits, axis=0)[::-1][:, :, None], middle, 0.0)
    roles = [
        middle * rng.uniform(0.6, 1.0, (1, configs, 1)) * _falling(rng, (budgets, configs, layers)) ** 0.1
        for _ in range(3)
    ]
    units = np.stack([roles[0], middle, roles[1], roles[2]])
    units = np.minimum.accumulate(np.minimum.accumulate(units, axis=3), axis=1)
    return np.ascontiguousarray(units[:, ::-1]) if looser_later else units


def random_case(seed: int, *, nodes: int, configs: int, layers: int, budgets: int, looser_later: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    units = random_units(rng, configs, layers, budgets, looser_later=looser_later)
    return Case(units, tuple(sorted(rng.integers(0, configs, nodes).tolist())))
