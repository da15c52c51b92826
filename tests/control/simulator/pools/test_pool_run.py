import copy
from math import isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.simulator.pools.encoder import Encoder
from control.simulator.pools.pool_requests import PoolRequest
from control.simulator.pools.pool_run import Member, PoolRun
from control.simulator.pools.row_link import RowLink
from control.simulator.pools.stage_times import EncodeTimes, TextTimes, encode_times, text_times
from control.simulator.pools.text_instance import TextInstance
from policies.pools.dispatches import DISPATCHES
from policies.pools.turns import TURNS
from templates_lib.cost.component import EstimatedComponentCost
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.component import ComponentWork, DecoderSpec
from templates_lib.ports.cost_model import NodeStep, Parallel
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

GRAPH = load_graph("internvl2.5-26b")
COSTS = EstimatedComponentCost(estimated_cost_model(load_gpus(), "vllm"))
TILE = 256


def node(gpus: int) -> NodeConfig:
    return NodeConfig(f"A100-80:{gpus}/n200", "A100-80", gpus, 2400.0, 200.0 * gpus, 200.0 * gpus)


@pytest.fixture(scope="module")
def encode() -> EncodeTimes:
    return encode_times(GRAPH, "vision", node(1), COSTS)


@pytest.fixture(scope="module")
def text() -> TextTimes:
    return text_times(GRAPH, "language", node(4), COSTS)


REQUEST = st.builds(
    lambda asked, tokens, output, images: PoolRequest(asked, tokens, output, images, due_s=2.0),
    st.floats(0, 20), st.integers(1, 4000), st.integers(1, 300),
    st.lists(st.integers(1, 5).map(lambda tiles: (TILE,) * tiles), max_size=4).map(tuple),
)  # fmt: skip
REQUESTS = st.lists(REQUEST, min_size=1, max_size=25).map(lambda each: sorted(each, key=lambda r: r.asked_s))


def rate(member: Member) -> float:
    return 4000.0 if isinstance(member, Encoder) else 8000.0


def run_of(dispatch: str, members: list[Member], requests: list[PoolRequest]) -> PoolRun:
    run = PoolRun(DISPATCHES[dispatch], RowLink(2 * 6144, 1e10, 0.001), rate)
    run.add(members)
    run.run(requests, 1e6)
    return run


@settings(max_examples=25)
@given(requests=REQUESTS, dispatch=st.sampled_from(sorted(DISPATCHES)), encoders=st.integers(1, 4))
def test_every_request_is_served_once_and_in_order(
    encode: EncodeTimes, text: TextTimes, requests: list[PoolRequest], dispatch: str, encoders: int
) -> None:
    requests = copy.deepcopy(requests)
    turn = TURNS[DISPATCHES[dispatch].turn]
    texts = [TextInstance(f"t{n}", text, turn) for n in range(2)]
    members: list[Member] = [Encoder(f"e{n}", encode, batch_tokens=2 * TILE) for n in range(encoders)]
    run_of(dispatch, [*members, *texts], requests)
    for each in requests:
        assert each.asked_s < each.first_token_s <= each.finish_s
        assert (each.output_tokens == 1) == (each.first_token_s == each.finish_s)
        assert each.image_tokens == sum(each.encoders.values())
        if each.images:
            assert each.asked_s < each.encoded_s < each.pulled_s < each.first_token_s
            assert each.ttft_s >= encode.seconds(TILE, 1) + text.prompt_s(each.text_tokens, each.image_tokens) * 0.5
    for member in members:
        assert isinstance(member, Encoder)
        assert member.pending_tokens == 0
    for instance in texts:
        assert instance.is_idle
        assert instance.pending_tokens == 0
        assert instance.held_tokens == pytest.approx(0)


@settings(max_examples=15)
@given(requests=REQUESTS)
def test_a_monolith_serves_all_and_is_no_faster_than_its_work(
    encode: EncodeTimes, text: TextTimes, requests: list[PoolRequest]
) -> None:
    requests = copy.deepcopy(requests)
    on_all = encode_times(GRAPH, "vision", node(4), COSTS)
    instance = TextInstance("m", text, TURNS["fcfs"], on_all, 4 * TILE)
    run_of("static-fcfs", [instance], requests)
    assert instance.is_idle
    busy_s = 0.0
    for each in requests:
        assert each.first_token_s <= each.finish_s
        busy_s += sum(on_all.seconds(sum(image), len(image)) for image in each.images) * 0.9
    assert max(each.finish_s for each in requests) - requests[0].asked_s >= busy_s


def test_pictures_of_one_request_are_read_side_by_side(encode: EncodeTimes, text: TextTimes) -> None:
    took = {}
    for encoders in (1, 2, 4):
        request = PoolRequest(0.0, 100, 5, ((TILE,), (TILE,), (TILE,), (TILE,)))
        members: list[Member] = [Encoder(f"e{n}", encode, 1) for n in range(encoders)]
        run_of("late-pull-v1", [*members, TextInstance("t", text, TURNS["slack"])], [request])
        took[encoders] = request.encoded_s
    assert took[2] == pytest.approx(took[1] / 2)
    assert took[4] == pytest.approx(took[1] / 4)


def test_a_small_request_passes_the_pictures_of_a_large_one(encode: EncodeTimes, text: TextTimes) -> None:
    def encoded_s(dispatch: str) -> float:
        large = PoolRequest(0.0, 100, 2, ((TILE,),) * 12)
        small = PoolRequest(encode.seconds(TILE, 1) * 1.5, 100, 2, ((TILE,),))
        members: list[Member] = [Encoder("e", encode, 1), TextInstance("t", text, TURNS["slack"])]
        run_of(dispatch, members, [large, small])
        assert not isnan(large.finish_s)
        return small.encoded_s - small.asked_s

    assert encoded_s("late-pull-v1") < 0.4 * encoded_s("static-slack")


def test_what_is_drained_finishes_what_it_holds_and_gets_nothing_more(encode: EncodeTimes, text: TextTimes) -> None:
    requests = [PoolRequest(0.1 * n, 500, 50, ((TILE,) * 3,)) for n in range(40)]
    run = PoolRun(DISPATCHES["late-pull-v1"], RowLink(2 * 6144, 1e10, 0.001), rate)
    texts: list[Member] = [TextInstance(f"t{n}", text, TURNS["slack"]) for n in range(2)]
    run.add([Encoder("e0", encode, 1), Encoder("e1", encode, 1), *texts])
    gone: dict[str, float] = {}
    run.on_gone = lambda name: gone.setdefault(name, run.now_s)  # type: ignore[assignment, return-value]
    run.at(1.0, lambda: run.drain("e1"))
    run.at(1.0, lambda: run.drain("t1"))
    run.run(requests, 1e6)
    assert gone.keys() == {"e1", "t1"}
    assert not any(isnan(each.finish_s) for each in requests)
    late = [each for each in requests if each.asked_s > 1.0]
    assert all(each.encoders.keys() == {"e0"} and each.text_instance == "t0" for each in late)


def test_steps_taken_together_are_those_taken_one_by_one(
    encode: EncodeTimes, text: TextTimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finished(most_steps: int) -> list[float]:
        monkeypatch.setattr("control.simulator.pools.text_instance.MOST_STEPS", most_steps)
        requests = [PoolRequest(0.37 * n, 300 + 50 * n, 40 + 9 * n) for n in range(30)]
        run_of("late-pull-v1", [TextInstance(f"t{n}", text, TURNS["slack"]) for n in range(2)], requests)
        return [each.finish_s for each in requests]

    assert finished(16) == pytest.approx(finished(1), rel=2e-3)


@pytest.mark.parametrize(("prompt", "context", "decoding", "cached"), [
    (2048, 1023.5, 0, 0.0), (700, 400.0, 20, 900.0), (0, 0.0, 64, 1500.0),
])  # fmt: skip
def test_step_times_are_those_of_the_cost_model(
    text: TextTimes, prompt: int, context: float, decoding: int, cached: float
) -> None:
    spec = GRAPH.component("language").spec
    assert isinstance(spec, DecoderSpec)
    figures = (float(spec.model.layers), float(prompt), context, float(decoding), cached)
    step = NodeStep(*(np.asarray(each) for each in figures))
    true_s = float(COSTS.stages.stage_seconds(spec.model, node(4), Parallel(4), step, head=True))
    assert text.seconds(prompt, context, decoding, cached, int(prompt > 0)) == pytest.approx(true_s, rel=0.03)


def test_an_encoder_takes_what_its_component_costs(encode: EncodeTimes) -> None:
    own = COSTS.seconds(GRAPH.component("vision"), node(1), ComponentWork(5.0 * TILE, 5.0), 1.0)
    assert encode.seconds(5 * TILE, 5) == own
