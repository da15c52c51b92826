"""Requests that no instance could take go to all of those that become ready at the same moment."""

from dataclasses import replace

import numpy as np
import pytest

from bench.text_tables import WHOLE, life_member, text_model
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.simulate import simulate
from control.timing.prompt_times import prompt_times
from policies.routing import BY_SLACK
from tests.control.simulator.serving.test_late_refusals import SLO, UNREFUSED, station

COUNT, READY_S = 30, 10.0


@pytest.mark.parametrize("policy", [BY_SLACK, "wrr-v1"])
def test_what_waits_is_shared_by_those_that_start_together(policy: str) -> None:
    lives = tuple(InstanceLife(f"i{n}", "m", WHOLE, "z", station(), READY_S) for n in range(3))
    members = [replace(life_member(life), times=prompt_times(life.station, is_whole=True)) for life in lives]
    model = replace(text_model("m", members), policy=policy, objective=SLO)
    ones = np.ones(COUNT, np.int64)
    requests = Requests(("m",), 0 * ones, np.linspace(0.0, READY_S - 1, COUNT), 100 * ones, ones)
    found = simulate(requests, FleetTimeline(lives, ((0.0, (model,)),), 100.0), UNREFUSED)
    # Steps of a tenth of a second, a prompt in each: three instances are through with ten apiece after a second
    assert found.first_token_s.max() == pytest.approx(READY_S + 0.1 * COUNT / 3, abs=0.11)
