"""Waiting times of a server's customers (M/G/1, first come first served), and the most load that leaves them in
time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

POINTS = 128
"""Number of waiting times, from none up to the budget."""
ALIAS = 1e-6
"""Share of a waiting time beyond twice the budget that is taken for a shorter one: what the transform folds back."""
HALVINGS = 11
MOST_LOAD = 0.98
_DAMPING = ALIAS ** (np.arange(POINTS) / (2 * POINTS))


@dataclass(frozen=True, slots=True, eq=False)
class Customers:
    """Customers of q kinds, at each of n servers. The service of one of kind k is anything between entries k and k +
    1."""

    weights: Floats
    """(q,): shares of the kinds."""
    own_s: Floats
    """(n, q + 1): from its start until it is done."""
    step_weights: Floats
    """(q,): shares of the steps. One that takes several joins the queue again for each."""
    busy_s: Floats
    """(n, q): how long a step keeps the server from the next one."""
    through_s: Floats
    """(n, q): how long a step takes in all, further on included, where those behind it cannot overtake it."""


def greatest_load(customers: Customers, budget_s: Floats, share: float) -> Floats:
    """The greatest share of its time (n,) that a server may be busy, so that a customer's wait and its own time are
    within `budget_s` (n,) for `share` of all; 0 where there is none.

    The wait W is that of Pollaczek and Khinchine, a geometric number of residual services: its transform is
    (1 - ρ) / (1 - ρ R), on a grid, damped so that what the grid cuts off does not come back (Abate and Whitt 1992).
    A server may be the first of several in a row, and nobody overtakes: behind one that takes S in all, whoever comes s
    later is done S - s later, and by the services of those between, ρ s, and its own. So it makes those late who come
    within (S + service - budget) / (1 - ρ), as far as it holds them up further on.
    """
    step = budget_s[:, None] / POINTS
    mean_s = customers.busy_s @ customers.step_weights
    transform = np.fft.rfft(_residual(customers, mean_s, step) * _DAMPING, 2 * POINTS, axis=1)
    waits_s = np.arange(POINTS) * step
    in_time = _distribution(customers.own_s, customers.weights, budget_s[:, None] - waits_s)
    beyond_s, most_s = customers.through_s + (mean_s - budget_s)[:, None], customers.through_s - customers.busy_s
    followers_s = np.zeros_like(waits_s)
    for kind, weight in enumerate(customers.step_weights):
        followers_s += weight * np.clip(waits_s + beyond_s[:, kind, None], 0.0, most_s[:, kind, None])
    longest_s = most_s @ customers.step_weights

    def on_time(load: Floats) -> Floats:
        law = np.fft.irfft((1 - load)[:, None] / (1 - load[:, None] * transform), 2 * POINTS, axis=1)
        law = law[:, :POINTS] / _DAMPING
        held_up_s = (law * followers_s).sum(axis=1) + (1 - law.sum(axis=1)) * longest_s
        return np.asarray((law * in_time).sum(axis=1) - load / mean_s * held_up_s / (1 - load))

    low, high = np.zeros(len(budget_s)), np.full(len(budget_s), MOST_LOAD)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        holds = on_time(middle) >= share
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low


def _residual(customers: Customers, mean_s: Floats, step: Floats) -> Floats:
    """(n, POINTS): how likely a service under way has so many steps to go."""
    ends = (np.arange(POINTS) + 0.5) * step
    within = np.zeros_like(ends)
    for kind, weight in enumerate(customers.step_weights):
        within += weight * np.minimum(customers.busy_s[:, kind, None], ends)
    return np.diff(within / mean_s[:, None], axis=1, prepend=0.0)


def _distribution(ends: Floats, weights: Floats, at: Floats) -> Floats:
    """(n, k): the share below `at` (n, k) of kinds that are spread evenly between two of `ends` (n, q + 1)."""
    total = np.zeros_like(at)
    for kind, weight in enumerate(weights):
        one, other = ends[:, kind, None], ends[:, kind + 1, None]
        rise = np.maximum(np.abs(other - one), 1e-12)
        total += weight * np.clip((at - np.minimum(one, other)) / rise, 0.0, 1.0)
    return total
