"""Short answers are made by aggregated instances and long ones by decode instances, and machines have less to do."""

from dataclasses import replace

import numpy as np
import pytest

from bench.text_tables import DECODE, PREFILL, WHOLE, life_member, text_model
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome, Served
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate
from control.timing.pipeline_model import NodeModel, PipelineModel, StageModel
from control.timing.prompt_times import prompt_times
from control.timing.step_table import StepTable, row_points, table_points
from policies.routing import BY_SLACK
from policies.routing_table import RoutedModel

PROMPT, SHORT, LONG, COUNT = 1000, 4, 100, 200
MEAN = (SHORT + LONG) / 2
LENGTH_S = 300.0
USD_PER_HOUR = {WHOLE: 1.0, PREFILL: 4.0, DECODE: 1.0}


def pipeline(token_s: float) -> PipelineModel:
    """One node, whose step takes a tenth of a millisecond for each row, and `token_s` more for each answer in it."""
    rows, points = row_points(), table_points()
    step = StepTable(1e-4 * rows, 0.0 * rows, 0.0 * points, token_s + 0.0 * points, 0.0, 0.0, 0.0)
    node = NodeModel("any", 1.0, 64, 2000, 10**6, step, hand_off_bytes_per_s=1e12)
    return PipelineModel((StageModel(8, (node,)),), 8192, 1000.0, (0,) * 8)


TOKEN_S = {WHOLE: 0.01, PREFILL: 0.01, DECODE: 0.001}
STATIONS = {leg: pipeline(token_s) for leg, token_s in TOKEN_S.items()}
"""Where both are made prompts cost a quarter, and answers nine times as much."""
LIVES = tuple(InstanceLife(leg, "a", leg, "z", station) for leg, station in STATIONS.items())
PROMPT_S = 1e-4 * PROMPT
RATES = {WHOLE: 1 / (PROMPT_S + MEAN * 0.0101), PREFILL: PROMPT / PROMPT_S, DECODE: 1 / 0.0011}
"""What they are certified for."""


def routed(known: float = 1.0) -> RoutedModel:
    """`known`: a factor on what instances are certified for. With a high one an answer costs nothing, as if nobody
    knew anything of it."""
    members = []
    for life in LIVES:
        own = life_member(life, known * RATES[life.leg])
        times = None if life.leg == DECODE else prompt_times(STATIONS[life.leg], is_whole=life.leg == WHOLE)
        members.append(replace(own, times=times, usd_per_hour=USD_PER_HOUR[life.leg]))
    model = text_model("a", members)
    split, whole = model.routes
    legs = tuple(replace(leg, units_per_request=mean) for leg, mean in zip(split.legs, (PROMPT, MEAN), strict=True))
    return replace(model, policy=BY_SLACK, routes=(replace(split, legs=legs), whole))


def requests(*, is_bounded: bool) -> Requests:
    """Every other answer is short. `is_bounded`: clients say so."""
    ones = np.ones(COUNT, np.int64)
    output = np.where(np.arange(COUNT) % 2, SHORT, LONG)
    bounds = {"most_tokens": output} if is_bounded else {}
    return Requests(("a",), 0 * ones, np.linspace(0, COUNT, COUNT), PROMPT * ones, output, **bounds)


def served_by(model: RoutedModel, asked: Requests) -> tuple[Served, float]:
    """What became of them, and what the time cost that machines computed."""
    fleet = FleetTimeline(LIVES, ((0.0, (model,)),), LENGTH_S, {"a": MEAN})
    served = simulate(asked, fleet, ServingSettings(admits=False))
    assert (served.outcome == Outcome.SERVED).all()
    seconds = [float(own.sum()) for own in served.use.busy_s]
    return served, sum(of * USD_PER_HOUR[life.leg] / 3600 for of, life in zip(seconds, LIVES, strict=True))


def test_short_answers_go_to_aggregated_instances_and_machines_compute_for_less() -> None:
    asked = requests(is_bounded=True)
    _, blind_usd = served_by(routed(known=1e9), asked)
    _, mean_usd = served_by(routed(), requests(is_bounded=False))
    served, usd = served_by(routed(), asked)
    is_whole = served.places[:, 1] < 0
    is_short = asked.output_tokens == SHORT
    assert is_whole[is_short].mean() > 0.95
    assert is_whole[~is_short].mean() < 0.05
    assert usd < 0.7 * blind_usd
    assert usd < 0.9 * mean_usd


@pytest.mark.parametrize("leg", [WHOLE, PREFILL])
def test_without_a_choice_nothing_depends_on_what_clients_allow(leg: str) -> None:
    model = routed()
    left = {PREFILL, DECODE} if leg == PREFILL else {WHOLE}
    few = replace(model, members=tuple(each for each in model.members if each.id in left))
    one, other = (served_by(few, requests(is_bounded=bounded))[0] for bounded in (True, False))
    assert (one.finish_s == other.finish_s).all()
