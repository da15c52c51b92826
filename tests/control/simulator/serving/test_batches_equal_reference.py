"""Stations of batches, and calls of any number of legs, do what a slow simulation in plain Python does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.simulator.serving.batch_model import BatchModel
from control.simulator.serving.served import Outcome
from control.simulator.serving.simulate import simulate
from tests.control.simulator.serving.batch_reference import ReferenceSimulation, least_seconds
from tests.control.simulator.serving.random_batches import CLASSES, LENGTH_S, UNREFUSED, random_batches


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40))
def test_every_call_goes_the_same_way_in_the_same_time(seed: int) -> None:
    requests, fleet = random_batches(seed)
    served = simulate(requests, fleet, UNREFUSED)
    for call in ReferenceSimulation(requests, fleet).run(LENGTH_S):
        n = call.number
        places = served.places[n][served.places[n] >= 0]
        assert places.tolist() == [station.number for station in call.stations], f"request {n}"
        got = (served.finish_s[n], served.handed_s[n])
        np.testing.assert_allclose(got, (call.finish_s, call.handed_s), rtol=0, atol=1e-9, err_msg=f"request {n}")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40))
def test_the_facets_of_a_capacity_are_the_least_time_of_a_mixture(seed: int) -> None:
    dice = np.random.default_rng(seed)
    points = tuple(
        {str(name): float(dice.uniform(1, 1000)) for name in dice.permutation(CLASSES)[: int(dice.integers(1, 4))]}
        for _ in range(int(dice.integers(1, 6)))
    )
    facets = BatchModel(points).facets(CLASSES)
    served = [name for name in CLASSES if any(name in point for point in points)]
    for _ in range(5):
        units = {name: float(dice.choice([0, dice.uniform(0, 100)])) for name in served}
        by_facets = max(facets @ [units.get(name, 0.0) for name in CLASSES])
        assert by_facets == pytest.approx(least_seconds(points, units), rel=1e-7, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40))
def test_no_call_is_made_from_nothing_or_lost_while_stations_come_and_go(seed: int) -> None:
    requests, fleet = random_batches(seed, dies=True)
    served = simulate(requests, fleet, UNREFUSED)
    done = served.outcome == Outcome.SERVED
    assert np.isfinite(served.finish_s[done]).all()
    assert np.isnan(served.finish_s[~done]).all()
    assert (served.made_tokens[done] == 1).all()
    gone_s = np.array([life.gone_s for life in fleet.instances])
    assert (served.finish_s[done] <= gone_s[served.last_instance[done]]).all()
    ((_, models),) = fleet.tables
    lengths = {app: {len(route.legs) for m in models if m.id == app for route in m.routes} for app in requests.apps}
    for n in np.flatnonzero(done):
        assert (served.places[n] >= 0).sum() in lengths[requests.apps[requests.app[n]]]
    again = simulate(requests, fleet, UNREFUSED)
    np.testing.assert_array_equal(again.finish_s, served.finish_s)


def test_a_batch_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="starts within its own time"):
        BatchModel(({"see/encode": 10.0},), batch_s=1.0, start_s=2.0)
    with pytest.raises(ValueError, match="above 0"):
        BatchModel(({"see/encode": 0.0},))
    many = tuple({f"{n}/x": 1.0 + n + p for n in range(12)} for p in range(20))
    with pytest.raises(ValueError, match="too many"):
        BatchModel(many).facets(tuple(many[0]))
