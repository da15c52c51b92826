"""What must hold of any simulation: no token made from nothing or lost, nobody serves who is not there."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from control.simulator.serving.served import Outcome
from control.simulator.serving.simulate import simulate
from tests.control.simulator.serving.random_worlds import by_slack, random_world

ROUNDING_S = 1e-9
"""Times that are sums and differences here are not to the last bit those that the simulation went by."""


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40), st.booleans(), st.booleans())
def test_tokens_are_neither_made_from_nothing_nor_lost(seed: int, late: bool, refuses: bool) -> None:
    requests, fleet, limits = by_slack(random_world(seed), seed, refuses) if late else random_world(seed)
    served = simulate(requests, fleet, limits)
    whole = served.outcome == Outcome.SERVED
    assert (served.made_tokens[whole] == requests.output_tokens[whole]).all()
    assert (served.made_tokens[~whole] < requests.output_tokens[~whole]).all()
    for refused in (Outcome.REFUSED, Outcome.REFUSED_LATE):
        assert (served.made_tokens[served.outcome == refused] == 0).all()
    assert np.isfinite(served.finish_s[whole]).all()
    assert np.isnan(served.finish_s[~whole]).all()
    assert (np.isfinite(served.first_token_s) == (served.made_tokens > 0)).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**40), st.booleans())
@example(2881, False)  # one begins when its instance is ready, less a rounding
def test_no_instance_serves_before_it_is_ready_or_after_it_is_gone(seed: int, late: bool) -> None:
    requests, fleet, limits = by_slack(random_world(seed), seed) if late else random_world(seed)
    served = simulate(requests, fleet, limits)
    ready_s = np.array([life.ready_s for life in fleet.instances])
    drain_s = np.array([life.drain_s for life in fleet.instances])
    gone_s = np.array([life.gone_s for life in fleet.instances])
    start_s = requests.arrival_s + served.queued_s
    stayed = np.isfinite(start_s) & (served.restarts == 0)
    begun = served.first_instance[stayed]
    assert (start_s[stayed] >= ready_s[begun] - ROUNDING_S).all()
    assert (start_s[stayed] <= gone_s[begun] + ROUNDING_S).all()
    # In a queue before instances, a request waits beyond the drain or death of any.
    came_s = np.where(late, 0.0, requests.arrival_s + limits.request_s)[stayed]
    assert (came_s <= np.minimum(drain_s, gone_s + limits.lost_after_s)[begun]).all()
    done = served.outcome == Outcome.SERVED
    end_s, last = served.finish_s[done] - limits.reply_s, served.last_instance[done]
    alone = requests.output_tokens[done] == 1
    last = np.where(alone, served.first_instance[done], last)
    assert (end_s <= gone_s[last] + ROUNDING_S).all()
    assert (end_s >= ready_s[last] - ROUNDING_S).all()
    for life, busy_s in zip(fleet.instances, served.use.busy_s, strict=True):
        nodes = sum(len(stage.nodes) for stage in life.station.stages)
        there_s = min(life.gone_s, fleet.length_s) - life.ready_s
        # The last step of each of its groups may begin late and go on beyond the end.
        assert busy_s.sum() <= nodes * there_s + 60.0


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**40), st.booleans())
def test_the_same_world_gives_the_same_bits(seed: int, late: bool) -> None:
    worlds = (random_world(seed) for _ in range(2))
    one, other = (simulate(*(by_slack(world, seed) if late else world)) for world in worlds)
    for name in ("outcome", "made_tokens", "first_token_s", "finish_s", "last_instance"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
