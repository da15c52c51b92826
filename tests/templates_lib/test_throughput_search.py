"""The best step within a budget: the best rate, and of the steps that reach it the largest."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from templates_lib.ports.cost_model import Floats, Parallel
from templates_lib.throughput.operation import NodeOperation, StepLoad, unpaced
from templates_lib.throughput.search import PLATEAU, best_steps

ONE = np.ones((4, 1, 1, 1))


@dataclass
class Toy:
    """Steps of r requests take r ms; memory bounds the rate at `most`, of which a larger step loses `slope` each."""

    most: float
    slope: float = 0.0
    is_paced: bool = False
    split: Any = None

    def __post_init__(self) -> None:
        memory = SimpleNamespace(kv_blocks=lambda free, _: free)
        self.split = SimpleNamespace(possible=ONE > 0, parallel=Parallel(), memory=memory)

    def levels(self) -> StepLoad:
        return StepLoad(np.array([1.0, 2.0, 4.0, 8.0, 16.0])[None, None, None, :], np.zeros((1, 1, 1, 1)))

    def operate(self, work: StepLoad) -> NodeOperation:
        rate = np.minimum(work.requests, self.most * (1 - self.slope * work.requests))
        return NodeOperation(ONE * work.requests / 1000, ONE * 0.0 * work.requests, ONE * rate, self.per_step(work))

    def per_step(self, work: StepLoad) -> Floats:
        return ONE * work.requests if self.is_paced else unpaced()

    def kv_free_bytes(self, work: StepLoad) -> Floats:
        return ONE * (100 - work.requests)


@pytest.mark.parametrize(
    ("most", "slope", "budget_ms", "requests", "rate"),
    [
        (100.0, 0.0, 5.0, 5.0, 5.0),  # the larger the better, as far as the budget goes
        (3.0, 0.0, 9.0, 8.0, 3.0),  # memory bounds it: a small step would do, and would hold others up
        (3.0, PLATEAU / 10, 9.0, 8.0, 3.0),  # hardly anything is lost
        (3.0, 10 * PLATEAU, 9.0, 2.0, 2.0),  # too much is
        (3.0, 0.0, 0.5, 0.0, 0.0),  # nothing fits
    ],
)
def test_of_equally_good_steps_the_largest_is_taken(
    most: float, slope: float, budget_ms: float, requests: float, rate: float
) -> None:
    best = best_steps(Toy(most, slope), np.array([budget_ms / 1000]))
    assert best.units_per_s.shape == (4, 1, 1)
    assert best.units_per_s[0, 0, 0] == pytest.approx(rate, rel=PLATEAU)
    if rate:
        assert best.requests[0, 0, 0] == requests
        assert best.kv_blocks[0, 0, 0] == 100 - requests


def test_a_group_that_peers_would_find_too_small_is_not_taken() -> None:
    """Two requests in steps of 2 ms would do for memory's bound, and in a pipeline they come round once in 2.2 s."""
    best = best_steps(Toy(3.0, 10 * PLATEAU, is_paced=True), np.array([2.2]))
    assert best.requests[0, 0, 0] == 4.0
    assert best.units_per_s[0, 0, 0] == pytest.approx(3.0 * (1 - 10 * PLATEAU * 4))
