"""Prompts that wait together go through an instance as fast as dispatch by slack reckons, in steps that they share."""

from dataclasses import replace

import numpy as np
import pytest

from bench.text_tables import DECODE, PREFILL, life_member, text_model
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate
from control.timing.pipeline_model import NodeModel, PipelineModel, StageModel
from control.timing.prompt_times import prompt_times
from control.timing.step_table import StepTable, row_points, table_points
from policies.routing import BY_SLACK
from policies.slack import PROMPT_POINTS

CHUNK, PROMPT, PROMPTS = 4000, 1000, 400


def pipeline(parts: int) -> PipelineModel:
    """One node of so many parts, whose empty step takes as long as one of 2,000 tokens does beyond it."""
    rows, points = row_points(), table_points()
    step = StepTable(
        rows_s=0.02 + 1e-5 * rows,
        head_s=0.0 * rows,
        prompt_context_s=2e-9 * points,
        decode_context_s=0.0 * points,
        prompt_step_s=0.0,
        prompt_token_s=0.0,
        decode_step_s=0.0,
        parts=parts,
        busy_share=1 / parts,
    )
    node = NodeModel("any", 1.0, 64, CHUNK, 10**6, step, hand_off_bytes_per_s=1e12)
    return PipelineModel((StageModel(8, (node,)),), 8192, 1000.0, (0,) * 8)


@pytest.mark.parametrize("parts", [1, 2, 8])
def test_prompts_that_wait_together_take_as_long_as_is_reckoned(parts: int) -> None:
    station = pipeline(parts)
    lives = tuple(InstanceLife(leg, "a", leg, "z", station) for leg in (PREFILL, DECODE))
    times = prompt_times(station, is_whole=False)
    members = [replace(life_member(life), times=times if life.leg == PREFILL else None) for life in lives]
    table = replace(text_model("a", members), policy=BY_SLACK)
    # One of a whole step first, so that all others wait when it is computed.
    prompts = np.array([CHUNK, *[PROMPT] * PROMPTS])
    requests = Requests(
        ("a",), np.zeros(len(prompts), np.int64), np.linspace(0, 1e-4, len(prompts)), prompts, np.ones_like(prompts)
    )
    served = simulate(requests, FleetTimeline(lives, ((0.0, (table,)),), 1e4), ServingSettings(admits=False, lead_s=0))

    def reckoned_s(of: tuple[float, ...], per_square: float) -> float:
        step_s = float(np.interp(CHUNK, PROMPT_POINTS, of))
        return step_s - per_square * (CHUNK**2 - CHUNK // PROMPT * PROMPT**2)

    begun_s = float(np.interp(prompts[0], PROMPT_POINTS, times.busy_s))
    steps = PROMPTS * PROMPT // CHUNK
    busy_s = reckoned_s(times.busy_s, times.busy_s_per_square)
    last_s = begun_s + (steps - 1) * busy_s + reckoned_s(times.latency_s, times.latency_s_per_square)
    assert served.first_token_s.max() == pytest.approx(last_s, rel=0.03)
    alone_s = float(np.interp(PROMPT, PROMPT_POINTS, times.busy_s))
    assert steps * busy_s < 0.7 * PROMPTS * alone_s, "a step of one prompt each would take longer by far"
