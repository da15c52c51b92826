"""Where calls are placed, against every placement there is."""

import itertools
import random
from collections import Counter

import numpy as np
import pytest

from policies.workflows.call_placement import placed
from policies.workflows.call_request import CallRequest, finish_s
from policies.workflows.shared_place import Place, QueuedBatch, avail_s
from policies.workflows.simple_placement import greedy, round_robin
from tests.policies.workflows.random_calls import random_request


def least_s(request: CallRequest, *, occupied: bool) -> float:
    """The latency of the best of all placements, each by eq. 1 and 2; `occupied`: one batch at a time on a place."""
    chosen = np.array(list(itertools.product(range(request.places), repeat=request.calls)))
    rows, done = np.arange(len(chosen)), np.zeros(chosen.shape)
    free = np.zeros((len(chosen), request.places))
    for call, inputs in enumerate(request.inputs):
        place = chosen[:, call]
        begins = request.avail_s[call, place]
        for taken in inputs:
            begins = np.maximum(begins, done[:, taken] + request.comm_s[taken, chosen[:, taken], place])
        if occupied:
            begins = np.maximum(begins, free[rows, place])
        done[:, call] = free[rows, place] = begins + request.comp_s[call, place]
    return float(done.max(axis=1).min())


def agrees(seed: int) -> None:
    request = random_request(random.Random(seed))
    for occupied in (False, True):
        found = placed(request, occupied=occupied, most_states=100_000)
        assert found.dropped == 0
        assert found.latency_s == pytest.approx(least_s(request, occupied=occupied), abs=1e-12), (seed, occupied)
        assert found.finish_s == tuple(finish_s(request, found.places, occupied=occupied))


def test_placements_are_the_best_there_are() -> None:
    for seed in range(100):
        agrees(seed)


@pytest.mark.slow
def test_placements_are_the_best_there_are_for_a_thousand_requests() -> None:
    for seed in range(100, 1000):
        agrees(seed)


def test_greedy_and_in_turn_are_no_better() -> None:
    worse = 0
    for seed in range(50):
        request = random_request(random.Random(seed))
        best_s = placed(request, most_states=100_000).latency_s
        for other in (greedy(request), round_robin(request, Counter({tuple(range(request.places)): seed}))):
            assert other.latency_s >= best_s - 1e-12
            worse += other.latency_s > best_s + 1e-9
    assert worse > 20


def test_a_call_that_nobody_takes_keeps_its_time() -> None:
    """Two calls without consumers, one of them slow: the end is that of the slow one, wherever the other is."""
    two = CallRequest(((), ()), np.zeros((2, 2)), np.array([[9.0, 5.0], [1.0, 1.0]]), np.zeros((2, 2, 2)))
    assert placed(two).latency_s == 5.0
    assert placed(two).places == (1, 0)


def test_a_place_is_held_by_the_runs_own_calls() -> None:
    fan = CallRequest(((), (), ()), np.zeros((3, 2)), np.ones((3, 2)), np.zeros((3, 2, 2)))
    assert placed(fan, occupied=False).latency_s == 1.0
    assert placed(fan).latency_s == 2.0


def test_arrays_that_do_not_fit_are_refused() -> None:
    """Compiled code would read what lies behind them."""
    zeros = np.zeros
    for wrong in (
        CallRequest(((), (0,)), zeros((2, 3)), zeros((2, 2)), zeros((2, 3, 3))),
        CallRequest(((), (0,)), zeros((2, 3)), zeros((2, 3)), zeros((1, 3, 3))),
        CallRequest(((),), zeros((1, 0)), zeros((1, 0)), zeros((1, 0, 0))),
        CallRequest(((),), np.full((1, 3), np.nan), zeros((1, 3)), zeros((1, 3, 3))),
        CallRequest(((1,), ()), zeros((2, 3)), zeros((2, 3)), zeros((2, 3, 3))),
    ):
        with pytest.raises(ValueError, match="call"):
            placed(wrong)


def test_places_that_are_alike_are_one_and_what_is_dropped_is_counted() -> None:
    fan = ((), (0,), (0,), (0,), (1, 2, 3))
    alike = CallRequest(fan, np.zeros((5, 32)), np.ones((5, 32)), np.full((5, 32, 32), 0.1) * (1 - np.eye(32)))
    found = placed(alike)
    assert found.dropped == 0, "32 places that no time tells apart are tried once"
    assert found.latency_s == pytest.approx(3.2)
    unlike = CallRequest(fan, np.arange(160.0).reshape(5, 32) / 1000, alike.comp_s, alike.comm_s)
    few = placed(unlike, most_states=8)
    assert few.dropped > 0
    assert few.latency_s >= placed(unlike, most_states=2000).latency_s


def test_when_a_place_can_begin_a_call() -> None:
    place = Place((QueuedBatch("a", 1, -1.0, 2.0), QueuedBatch("b", 3, 2.0, 5.0)), {"a": 0.0, "b": 3.0})
    assert avail_s(place, "b", 9.0, 4) == 3.0, "joins the batch that waits, once it is loaded"
    assert avail_s(place, "b", 9.0, 3) == 5.0, "the batch is full"
    assert avail_s(place, "a", 9.0, 4) == 5.0, "a batch that is computed takes no more"
    assert avail_s(place, "c", 9.0, 4) == 9.0, "is loaded while others are computed"
    assert avail_s(Place(), "c", 1.0, 4) == 1.0
