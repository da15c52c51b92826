"""Processors that send KV caches, or take them in, compute so much later."""

from dataclasses import replace

import numpy as np
import pytest

from bench.text_tables import DECODE, PREFILL, life_member, text_model
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Served
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate
from control.timing.pipeline_model import PipelineModel, StageModel
from control.timing.prompt_times import prompt_times
from policies.slack import PROMPT_POINTS
from tests.control.simulator.serving.test_shared_steps import pipeline

PROMPT = 1000
ARRIVALS_S = (0.0, 0.2)


def station(send_s_per_byte: float = 0.0, take_s_per_byte: float = 0.0) -> PipelineModel:
    plain = pipeline(1)
    (stage,) = plain.stages
    node = replace(stage.nodes[0], send_s_per_byte=send_s_per_byte, take_s_per_byte=take_s_per_byte)
    return replace(plain, stages=(StageModel(stage.layers, (node,)),))


def served(prefill: PipelineModel, decode: PipelineModel) -> Served:
    """The second request's KV cache comes while the first is decoded."""
    lives = InstanceLife("p", "a", PREFILL, "z", prefill), InstanceLife("d", "a", DECODE, "z", decode)
    requests = Requests(
        ("a",), np.zeros(2, np.int64), np.array(ARRIVALS_S), np.full(2, PROMPT), np.array([40, 4], np.int64)
    )
    table = text_model("a", list(map(life_member, lives)))
    return simulate(requests, FleetTimeline(lives, ((0.0, (table,)),), 1e3), ServingSettings(admits=False))


def test_a_prompt_takes_longer_by_the_bytes_that_are_sent_of_it() -> None:
    before, after = served(station(), station()), served(station(send_s_per_byte=1e-8), station())
    more_s = PROMPT * 8 * 1000.0 * 1e-8
    assert after.first_token_s - before.first_token_s == pytest.approx(more_s)


def test_dispatch_reckons_with_what_is_sent_only_where_prefill_is_alone() -> None:
    def latency_s(send_s_per_byte: float, *, is_whole: bool) -> np.ndarray:
        return np.array(prompt_times(station(send_s_per_byte), is_whole=is_whole).latency_s)

    more_s = np.maximum(PROMPT_POINTS, 1.0) * 8 * 1000.0 * 1e-8
    assert latency_s(1e-8, is_whole=False) - latency_s(0.0, is_whole=False) == pytest.approx(more_s)
    assert (latency_s(1e-8, is_whole=True) == latency_s(0.0, is_whole=True)).all()


def test_those_that_are_decoded_wait_for_a_cache_that_comes_and_an_idle_node_keeps_nobody_waiting() -> None:
    before, after = served(station(), station()), served(station(), station(take_s_per_byte=1e-8))
    more_s = PROMPT * 8 * 1000.0 * 1e-8
    assert (after.first_token_s == before.first_token_s).all()
    # The first came to an idle node, the second while the first was decoded.
    assert after.finish_s[0] - before.finish_s[0] == pytest.approx(more_s, rel=0.35)
