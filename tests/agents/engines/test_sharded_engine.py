"""A stage on two processes behind one engine: the same answers, the same refusals, and no process left behind."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.errors import BadBatchError, OutOfKvBlocksError, OutOfMemoryError, RankLostError
from agents.engines.kv_part import KvPart
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.sharded_engine import ShardedEngine, load_sharded_engine
from agents.weights.errors import MissingWeightsError
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.drafted_answers import answered
from tests.agents.engines.pipelines import DEVICE, Pipeline, Running, exported, hand_over
from tests.agents.engines.shared_blocks import ask, drop, free, free_blocks, names
from tests.agents.engines.tiny_models import LAYERS, assert_same, prompt_of, reference

Made = Callable[[str], TinyModel]
PROMPT = prompt_of(37)
TOKENS, BLOCKS = 10, 16


def load(path: Path, whole_experts: bool = True, memory_bytes: int | None = None) -> ShardedEngine:
    held, devices = LayerRange.whole(LAYERS), (DEVICE, DEVICE)
    return load_sharded_engine(path, held, BLOCKS, torch.float32, devices, whole_experts, 60, memory_bytes)


def children() -> set[int]:
    """Processes of this one that hold shards."""
    found = psutil.Process().children(recursive=True)
    return {child.pid for child in found if any("spawn_main" in part for part in child.cmdline())}


def assert_handed_over_both_ways(ours: Pipeline, single: Pipeline, expected: list[int]) -> None:
    for source, target in ((ours, single), (single, ours)):
        (running,) = source.step([Running("x", tuple(PROMPT))], chunk=64)
        hand_over("x", len(PROMPT), source, target)
        source.free("x")
        while len(running.tokens) < TOKENS:
            (running,) = target.step([running], chunk=1)
        target.free("x")
        assert_same(list(running.tokens), expected)


@pytest.fixture(scope="module")
def sharded(tiny_model: Made) -> Iterator[ShardedEngine]:
    checkpoint, _ = tiny_model("gpt-oss")
    before = children()
    engine = load(checkpoint.path)  # type: ignore[attr-defined]
    yield engine
    engine.close()
    assert children() == before


def test_ranks_that_share_a_kv_head_hand_it_over_once_and_all_take_and_keep_it(tiny_model: Made) -> None:
    checkpoint, model = tiny_model("llama-one-kv-head")
    expected = reference(model, PROMPT, TOKENS)
    engine = load(checkpoint.path, whole_experts=False)  # type: ignore[attr-defined]
    try:
        assert (engine.facts.first_kv_head, engine.facts.kv_heads) == (0, 1)
        ours, single = Pipeline([engine]), Pipeline.load(checkpoint, [2, 4])
        assert_handed_over_both_ways(ours, single, expected)
        answer = ask(ours, "first", PROMPT, TOKENS)
        assert_same(answer, expected)
        free(ours, "first", (0, 1))
        assert ask(ours, "second", PROMPT, TOKENS, names("first", 2)) == answer, "all ranks keep the same blocks"
        free(ours, "second")
        drop(ours, *names("first", 2))
        assert free_blocks(ours) == {BLOCKS}
    finally:
        engine.close()


def test_what_does_not_fit_its_devices_is_refused_and_leaves_no_process(tiny_model: Made) -> None:
    checkpoint, _ = tiny_model("gpt-oss")
    before = children()
    with pytest.raises(OutOfMemoryError, match=r"of 0 MiB: load at most 0 blocks"):
        load(checkpoint.path, memory_bytes=1 << 18)  # type: ignore[attr-defined]
    assert children() == before


def test_it_answers_as_one_engine_and_hands_kv_over_both_ways(tiny_model: Made, sharded: ShardedEngine) -> None:
    checkpoint, model = tiny_model("gpt-oss")
    expected = reference(model, PROMPT, TOKENS)
    ours, single = Pipeline([sharded]), Pipeline.load(checkpoint, [2, 4])
    assert_same(ours.generate(PROMPT, TOKENS, chunk=16), expected)
    for tokens in answered(ours, PROMPT, expected[0], requests=2):
        assert_same(tokens, expected)
    assert_handed_over_both_ways(ours, single, expected)
    assert sharded.free_kv_blocks == BLOCKS


def test_heads_of_several_ranks_go_over_in_one_part(tiny_model: Made, sharded: ShardedEngine) -> None:
    single = Pipeline.load(tiny_model("gpt-oss")[0], [LAYERS])
    for pipeline in (Pipeline([sharded]), single):
        pipeline.step([Running("y", tuple(PROMPT))], chunk=64)
    part = KvPart(1, 1, 0, sharded.facts.kv_heads, 3, 20)
    ours = exported(sharded, "y", part)
    assert torch.allclose(ours, exported(single.stages[0], "y", part), atol=1e-5)
    sharded.import_kv("y", part, -ours)
    assert torch.equal(exported(sharded, "y", part), -ours)
    sharded.free("y")


def test_what_is_refused_leaves_all_ranks_as_they_were(tiny_model: Made, sharded: ShardedEngine) -> None:
    with pytest.raises(OutOfKvBlocksError):
        sharded.reserve("z", 16 * 40)
    sharded.reserve("z", 20)
    with pytest.raises(BadBatchError, match="KV heads"):
        exported(sharded, "z", KvPart(1, 1, 1, 2, 0, 4))
    with pytest.raises(BadBatchError, match="keeps tokens"):
        exported(sharded, "z", KvPart(1, 1, 0, 2, 0, 21))
    with pytest.raises(BadBatchError, match="shape"):
        sharded.import_kv("z", KvPart(1, 1, 0, 2, 0, 4), torch.zeros(2, 1, 4, 1, 16))
    with pytest.raises(BadBatchError, match="token ids"):
        sharded.step(StepBatch((StepRequest("w", 0, 1),)), torch.tensor([-1]))
    sharded.free("z")
    _, model = tiny_model("gpt-oss")
    assert_same(Pipeline([sharded]).generate(PROMPT, 3), reference(model, PROMPT, 3))


def test_a_rank_that_dies_is_noticed(tiny_model: Made) -> None:
    checkpoint, _ = tiny_model("llama")
    before = children()
    engine = load(checkpoint.path, whole_experts=False)  # type: ignore[attr-defined]
    (rank,) = children() - before
    os.kill(rank, signal.SIGKILL)
    with pytest.raises(RankLostError):
        Pipeline([engine]).generate(PROMPT, TOKENS)
    engine.close()
    assert children() == before


def test_a_checkpoint_that_is_not_there_starts_nothing(tmp_path: Path) -> None:
    before = children()
    with pytest.raises(MissingWeightsError, match="no_model"):
        load(tmp_path / "no_model")
    assert children() == before
