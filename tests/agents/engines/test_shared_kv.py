"""Requests that begin with KV blocks of others: the same tokens, and no block lost or overwritten."""

from collections.abc import Callable

import pytest
import torch

from agents.engines.batch import BlockName, StepBatch, StepRequest
from agents.engines.errors import BadBatchError
from agents.engines.layer_range import LayerRange
from agents.engines.protocol import StageEngine
from agents.engines.sampling import GREEDY
from agents.engines.torch_engine.block_table import BLOCK_TOKENS, WindowGroup
from agents.engines.torch_engine.engine import load_torch_engine
from agents.engines.torch_engine.kv_cache import KvCache
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import DEVICE, Pipeline
from tests.agents.engines.shared_blocks import ask, drop, free, free_blocks, names
from tests.agents.engines.tiny_models import LAYERS, prompt_of

Made = Callable[[str], TinyModel]
BLOCKS = 12
PROMPT = prompt_of(3 * BLOCK_TOKENS + 5)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_answers_behind_shared_blocks_are_those_of_who_computes_all(tiny_model: Made, family: str) -> None:
    pipeline = Pipeline.load(tiny_model(family)[0], (1, LAYERS - 1), BLOCKS)
    expected = pipeline.generate(PROMPT, 20)
    assert ask(pipeline, "first", PROMPT, 20) == expected
    assert ask(pipeline, "beside", PROMPT, 20, names("first", 3)) == expected, "of one that still runs"
    free(pipeline, "first", (0, 1, 2))
    assert ask(pipeline, "behind", PROMPT, 20, names("first", 2)) == expected, "of one that is over"
    chain = (*names("first", 3), BlockName("behind", 3))
    free(pipeline, "behind", (3,))
    text = [*PROMPT, *expected[: 4 * BLOCK_TOKENS - len(PROMPT) + 3]]
    assert ask(pipeline, "goes on", text, 5, chain) == pipeline.generate(text, 5), "blocks that two runs have filled"
    free(pipeline, "beside")
    free(pipeline, "goes on")
    drop(pipeline, *chain)
    assert free_blocks(pipeline) == {BLOCKS}


def test_shared_blocks_outlive_who_gave_them_and_take_no_room_twice(tiny_model: Made) -> None:
    pipeline = Pipeline.load(tiny_model("llama")[0], (LAYERS,), BLOCKS)
    expected = pipeline.generate(PROMPT, 20)
    ask(pipeline, "first", PROMPT, 1)
    assert free_blocks(pipeline) == {BLOCKS - 4}
    ask(pipeline, "second", PROMPT, 1, names("first", 3))
    assert free_blocks(pipeline) == {BLOCKS - 5}
    free(pipeline, "first", (0, 1, 2))
    assert free_blocks(pipeline) == {BLOCKS - 4}
    drop(pipeline, *names("first", 3))
    assert free_blocks(pipeline) == {BLOCKS - 4}, "the second request has them still"
    other = pipeline.generate(prompt_of(7 * BLOCK_TOKENS, 9), 10)  # writes to all others
    assert len(other) == 10
    answer: list[int] = []
    last = expected[:1]
    for position in range(len(PROMPT), len(PROMPT) + 19):
        (sample,) = pipeline.forward((StepRequest("second", position, 1, GREEDY),), last)
        last = [sample.token_id]
        answer += last
    assert answer == expected[1:]
    free(pipeline, "second")
    assert free_blocks(pipeline) == {BLOCKS}


def refused(engine: StageEngine, request: StepRequest) -> None:
    before = engine.free_kv_blocks
    with pytest.raises(BadBatchError):
        engine.step(StepBatch((request,)), torch.tensor(prompt_of(request.tokens)))
    assert engine.free_kv_blocks == before


def test_blocks_that_are_not_there_are_refused_before_anything_changes(tiny_model: Made) -> None:
    pipeline = Pipeline.load(tiny_model("llama")[0], (LAYERS,), BLOCKS)
    (engine,) = pipeline.stages
    ask(pipeline, "first", PROMPT, 1)
    refused(engine, StepRequest("second", BLOCK_TOKENS, 3, shared=(BlockName("nobody", 0),)))
    refused(engine, StepRequest("second", BLOCK_TOKENS, 3, shared=(BlockName("first", 3),)))  # not full
    refused(engine, StepRequest("second", 3, 3, shared=names("first", 1)))  # goes on elsewhere than behind it
    refused(engine, StepRequest("first", len(PROMPT), 3, shared=names("first", 1)))  # is under way
    with pytest.raises(BadBatchError):
        engine.drop(names("first", 1))  # not kept: it runs


def test_layers_with_a_window_keep_too_little_to_share(tiny_model: Made) -> None:
    engine = load_torch_engine(tiny_model("gpt-oss")[0], LayerRange.whole(LAYERS), BLOCKS, torch.float32, DEVICE)
    assert not engine.facts.shares_kv
    engine.step(StepBatch((StepRequest("first", 0, len(PROMPT)),)), torch.tensor(PROMPT))
    refused(engine, StepRequest("second", BLOCK_TOKENS, 3, shared=names("first", 1)))


def test_what_a_token_holds_is_a_requests_own_where_it_attends_to_an_encoder() -> None:
    groups = (WindowGroup(0, (0,)),)
    assert KvCache(groups, 1, 1, 1, torch.empty(0)).shares
    assert not KvCache(groups, 1, 1, 1, torch.empty(0), encoded_tokens=16).shares
