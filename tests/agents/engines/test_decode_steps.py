"""Steps of single tokens as a GPU runs them: everything on the device, in shapes that come again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.decode_steps import DecodeShape, shape_of
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import DEVICE, Pipeline, Running
from tests.agents.engines.shards import ranks
from tests.agents.engines.test_operations import Counted
from tests.agents.engines.tiny_models import LAYERS, MODELS, assert_same, prompt_of, reference

Made = Callable[[str], TinyModel]
TOKENS = 12
LENGTHS = (3, 70, 16, 1, 33, 2, 9, 40, 5, 11)


@pytest.fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr("agents.engines.torch_engine.engine.has_decode_steps", lambda _: True)
        patch.setattr("agents.engines.torch_engine.expert_matrices.is_grouped", lambda _: True)
        yield


@given(requests=st.integers(1, 600), blocks=st.lists(st.integers(1, 9000), min_size=1, max_size=2))
def test_a_shape_has_room_and_little_more(requests: int, blocks: list[int]) -> None:
    shape = shape_of(requests, blocks)
    assert requests <= shape.rows < requests + 8
    assert all(most <= room <= max(4, 2 * most) for most, room in zip(blocks, shape.blocks, strict=True))


def test_few_shapes_occur() -> None:
    shapes = {shape_of(requests, [blocks]) for requests in range(1, 65) for blocks in range(1, 513)}
    assert len(shapes) <= 100
    assert DecodeShape(1, (4,)) in shapes


@pytest.mark.parametrize("name", MODELS)
def test_requests_that_join_and_leave_get_the_tokens_of_transformers(tiny_model: Made, name: str) -> None:
    """Chunks of prompts come between steps of single tokens; batches grow, shrink, and change their members."""
    checkpoint, model = tiny_model(name)
    more = 40 if name == "phi3-long-partial" else 0  # of texts within its first context transformers thinks otherwise
    prompts = {f"r{i}": prompt_of(length + more, i) for i, length in enumerate(LENGTHS)}
    pipeline = Pipeline.load(checkpoint, [2, 4])
    waiting = [Running(request, tuple(prompt)) for request, prompt in prompts.items()]
    running, finished = waiting[:2], {}
    waiting = waiting[2:]
    while running:
        running = pipeline.step(running, chunk=64)
        for request in [r for r in running if len(r.tokens) == TOKENS]:
            finished[request.id] = list(request.tokens)
            pipeline.free(request.id)
            running.remove(request)
        if waiting and len(running[-1].tokens if running else ()) in (0, 2, 3):
            running.append(waiting.pop(0))
    assert finished.keys() == prompts.keys()
    for request, prompt in prompts.items():
        assert_same(finished[request], reference(model, prompt, TOKENS))
    assert [stage.free_kv_blocks for stage in pipeline.stages] == [64, 64]


@pytest.mark.parametrize("name", ["qwen3", "gpt-oss"])
def test_two_ranks_sample_the_tokens_of_transformers(tiny_model: Made, name: str) -> None:
    checkpoint, model = tiny_model(name)
    held, prompt = LayerRange.whole(LAYERS), prompt_of(33)
    with ranks(2, whole_experts=name == "gpt-oss") as cut:
        each = cut.each(lambda rank: load_torch_engine(checkpoint, held, 32, torch.float32, DEVICE, cut.shards[rank]))
        for tokens in cut.each(lambda rank: Pipeline([each[rank]]).generate(prompt, TOKENS)):
            assert_same(tokens, reference(model, prompt, TOKENS))


def test_a_request_that_is_given_up_leaves_its_row_to_the_next(tiny_model: Made) -> None:
    """The same shape, other tables."""
    checkpoint, model = tiny_model("llama")
    pipeline = Pipeline.load(checkpoint, [LAYERS])
    for seed in range(3):
        prompt = prompt_of(30, seed)
        assert_same(pipeline.generate(prompt, 5), reference(model, prompt, 5))


def engine_with(checkpoint: Any, lengths: tuple[int, ...]) -> TorchEngine:
    """Of three layers amid the model, with requests of so many tokens."""
    held = LayerRange(1, 3, first=False, last=False)
    engine = load_torch_engine(checkpoint, held, 64, torch.float32, DEVICE)
    for number, length in enumerate(lengths):
        engine.reserve(str(number), length)
    return engine


def step(engine: TorchEngine, positions: tuple[int, ...]) -> None:
    requests = tuple(StepRequest(str(number), position, 1) for number, position in enumerate(positions))
    generator = torch.Generator().manual_seed(0)
    engine.step(StepBatch(requests), torch.randn(len(requests), engine.facts.hidden_size, generator=generator))


def operations_of(checkpoint: Any, lengths: tuple[int, ...]) -> int:
    """Of a step whose shape has come before."""
    engine = engine_with(checkpoint, lengths)
    step(engine, lengths)
    with Counted() as counted:
        step(engine, tuple(length + 1 for length in lengths))
    return counted.operations


@pytest.mark.skipif(DEVICE.type != "cpu", reason="a recorded step is one operation")
@pytest.mark.parametrize("name", ["llama", "gpt-oss"])
def test_a_step_is_as_many_operations_whatever_the_requests_are(tiny_model: Made, name: str) -> None:
    """Otherwise each length is gathered by itself."""
    checkpoint, _ = tiny_model(name)
    assert operations_of(checkpoint, (3, 18, 70, 200)) == operations_of(checkpoint, (20, 20, 20, 20))


@pytest.mark.parametrize("first", [True, False])
def test_what_is_done_before_any_request_comes_leaves_nothing(tiny_model: Made, first: bool) -> None:
    held = LayerRange(0 if first else 3, 3, first=first, last=not first)
    engine = load_torch_engine(tiny_model("gpt-oss")[0], held, 24, torch.float32, DEVICE)
    assert engine._decode is not None
    assert {shape.rows for shape in engine._decode._shapes} == {1, 2, 4, 8, 16}
    assert engine.free_kv_blocks == 24


def test_shapes_that_were_not_used_for_longest_are_forgotten(tiny_model: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.engines.torch_engine.decode_steps.MOST_SHAPES", 2)
    lengths = [20, 70, 3, 9]
    engine = engine_with(tiny_model("llama")[0], tuple(lengths))
    for many in (1, 2, 4, 1):
        step(engine, tuple(lengths[:many]))
        lengths[:many] = [length + 1 for length in lengths[:many]]
    assert engine._decode is not None
    assert [shape.rows for shape in engine._decode._shapes] == [4, 1]
