"""Text is made among other legs: behind an encoder, and before a voice."""

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from control.simulator.serving.batch_model import BatchModel
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome, Served
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate
from policies.routing_table import RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute
from templates_lib.values.work import Edge, Unit
from tests.control.simulator.serving.random_worlds import random_world

LENGTH_S = 1000.0
UNREFUSED = ServingSettings(admits=False, max_waiting=100_000, request_timeout_s=1e6)
LANES = 1000
"""So many that every call has one at once."""
SECONDS = 3.0


def around_text(seed: int, *, is_first: bool) -> tuple[tuple[Requests, FleetTimeline], tuple[Requests, FleetTimeline]]:
    """A random fleet that makes text and keeps all its instances, and the same with one more leg before or after each
    route, which takes `SECONDS`."""
    requests, fleet, _ = random_world(seed)
    lives = tuple(replace(life, ready_s=0.0, drain_s=np.inf, gone_s=np.inf) for life in fleet.instances)
    table = fleet.tables[0][1]
    plain = FleetTimeline(lives, ((0.0, table),), LENGTH_S)
    station = BatchModel(({"other/leg": LANES / SECONDS},), lanes=LANES)
    other = InstanceLife("other", "", "", "z1", station)
    model_of = [_with_leg(model, is_first=is_first) for model in table]
    both = FleetTimeline((*lives, other), ((0.0, tuple(model_of)),), LENGTH_S)
    return (requests, plain), (requests, both)


def _with_leg(model: RoutedModel, *, is_first: bool) -> RoutedModel:
    leg = RoutedLeg("other/leg", Unit.INVOCATION, 1.0)
    routes = []
    for route in model.routes:
        shift = 1 if is_first else 0
        edges = [Edge(e.source + shift, e.target + shift, e.bytes_per_request) for e in route.edges]
        last = len(route.legs)
        edges.append(Edge(0, 1, 0.0) if is_first else Edge(last - 1, last, 0.0))
        legs = (leg, *route.legs) if is_first else (*route.legs, leg)
        routes.append(RoutedRoute(route.id, legs, tuple(edges)))
    # Wide, so that it is no route's narrowest leg and routers choose as they do without it.
    members = (*model.members, RoutedInstance("other", "z1", {"other/leg": 1e9}))
    return replace(model, routes=tuple(routes), members=members)


def _as_text(served: Served) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.stack([served.first_token_s, served.finish_s])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**40))
def test_behind_an_encoder_text_is_made_as_if_requests_came_later(seed: int) -> None:
    (requests, plain), (_, both) = around_text(seed, is_first=True)
    one_zone = tuple(replace(life, zone="z1") for life in plain.instances)
    plain, both = _in_one_zone(plain, one_zone), _in_one_zone(both, (*one_zone, both.instances[-1]))
    later = replace(requests, arrival_s=requests.arrival_s + SECONDS)
    alone, behind = simulate(later, plain, UNREFUSED), simulate(requests, both, UNREFUSED)
    # Who was preempted is tried again whenever its scheduler hears of another request, which is sooner here.
    assume(not alone.preemptions.any())
    np.testing.assert_array_equal(alone.outcome, behind.outcome)
    np.testing.assert_allclose(_as_text(behind), _as_text(alone), rtol=0, atol=1e-6)
    done = alone.outcome == Outcome.SERVED
    np.testing.assert_array_equal(behind.last_instance[done], alone.last_instance[done])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**40))
def test_a_voice_speaks_when_the_text_is_whole(seed: int) -> None:
    (requests, plain), (_, both) = around_text(seed, is_first=False)
    one_zone = tuple(replace(life, zone="z1") for life in plain.instances)
    plain, both = _in_one_zone(plain, one_zone), _in_one_zone(both, (*one_zone, both.instances[-1]))
    alone, spoken = simulate(requests, plain, UNREFUSED), simulate(requests, both, UNREFUSED)
    assume(not alone.preemptions.any())
    np.testing.assert_array_equal(alone.outcome, spoken.outcome)
    np.testing.assert_allclose(spoken.first_token_s, alone.first_token_s, rtol=0, atol=1e-9)
    np.testing.assert_allclose(spoken.finish_s, alone.finish_s + SECONDS, rtol=0, atol=1e-6)


def _in_one_zone(fleet: FleetTimeline, lives: tuple[InstanceLife, ...]) -> FleetTimeline:
    """One zone, so that routers choose the same with the leg and without."""
    ((_, models),) = fleet.tables
    moved = tuple(replace(m, members=tuple(replace(each, zone="z1") for each in m.members)) for m in models)
    return replace(fleet, instances=lives, tables=((0.0, moved),))
