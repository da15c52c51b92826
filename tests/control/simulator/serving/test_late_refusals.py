"""Simulated requests that no instance can begin in time are refused where that is stated (`slo.late: refuse`)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.text_tables import WHOLE, life_member, text_model
from control.simulator.report.fate import Fate, judge
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome, Served
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate
from control.timing.pipeline_model import NodeModel, PipelineModel, StageModel
from control.timing.prompt_times import prompt_times
from control.timing.step_table import StepTable, row_points, table_points
from policies.routing import BY_SLACK
from templates_lib.values.slo import Slo
from tests.control.simulator.serving.random_worlds import by_slack, random_world

UNREFUSED = ServingSettings(admits=False)
SLO = Slo(2000.0, 1e6)


def station() -> PipelineModel:
    """Steps of a tenth of a second, with one prompt in each."""
    rows, points = row_points(), table_points()
    step = StepTable(0.1 + 0.0 * rows, 0.0 * rows, 0.0 * points, 0.0 * points, 0.0, 0.0, 0.0, 1, 1, 1.0)
    node = NodeModel("any", 1.0, 64, 100, 10_000, step, 0.0, 0.0, 1e9, 1.0, 0.01)
    return PipelineModel((StageModel(1, (node,)),), 4096, 1000.0, (0,), 16, 0.0)


def served(rate: float, slo: Slo, *, ready_s: float = 0.0, policy: str = BY_SLACK) -> tuple[Requests, Served]:
    """What becomes of requests of one prompt step each, `rate` a second for 30 s, before one instance."""
    life = InstanceLife("i", "m", WHOLE, "z", station(), ready_s)
    member = replace(life_member(life), times=prompt_times(life.station, is_whole=True))
    model = replace(text_model("m", [member]), policy=policy, objective=slo)
    arrival_s = np.arange(0.0, 30.0, 1 / rate)
    ones = np.ones(len(arrival_s), np.int64)
    requests = Requests(("m",), 0 * ones, arrival_s, 100 * ones, ones)
    return requests, simulate(requests, FleetTimeline((life,), ((0.0, (model,)),), 400.0), UNREFUSED)


def test_of_an_overload_the_rest_is_refused_and_all_that_is_served_is_in_time() -> None:
    refusing = replace(SLO, refuses_late=True)
    requests, found = served(20.0, refusing)
    fate = judge(requests, found, {"m": refusing}, 400.0).fate
    assert set(fate) == {Fate.WITHIN, Fate.REFUSED_LATE}
    assert (fate == Fate.WITHIN).sum() == pytest.approx(0.5 * len(requests), rel=0.1)  # what one can do
    _, late = served(20.0, SLO)
    assert (late.outcome == Outcome.SERVED).all()
    was_within = judge(requests, late, {"m": SLO}, 400.0).fate == Fate.WITHIN
    assert (fate == Fate.WITHIN).sum() >= was_within.sum()


def test_nothing_is_refused_below_capacity_nor_in_turns_nor_while_an_instance_starts() -> None:
    refusing = replace(SLO, refuses_late=True)
    for _, found in (served(8.0, refusing), served(20.0, refusing, policy="wrr-v1")):
        assert (found.outcome == Outcome.SERVED).all()
    requests, found = served(1.0, replace(refusing, ttft_ms=150.0), ready_s=20.0)
    assert (found.outcome[requests.arrival_s < 20.0] == Outcome.SERVED).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**40))
def test_what_is_refused_as_late_has_no_token_and_without_the_option_nothing_is(seed: int) -> None:
    found = simulate(*by_slack(random_world(seed), seed, refuses_late=True))
    refused = found.outcome == Outcome.REFUSED_LATE
    assert (found.made_tokens[refused] == 0).all()
    assert np.isnan(found.first_token_s[refused]).all()
    assert not (simulate(*by_slack(random_world(seed), seed)).outcome == Outcome.REFUSED_LATE).any()
