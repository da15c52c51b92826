"""A stage cut over ranks, by heads and width or by experts, says what the whole says."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from agents.engines.batch import StepBatch
from agents.engines.errors import BadBatchError
from agents.engines.kv_part import KvPart
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from agents.weights.checkpoint import Checkpoint
from agents.weights.source import open_checkpoint
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.packed_experts import save_packed
from tests.agents.engines.pipelines import DEVICE, Pipeline, Running, exported
from tests.agents.engines.shards import Ranks, ranks
from tests.agents.engines.tiny_models import LAYERS, assert_same, prompt_of, reference

Made = Callable[[str], TinyModel]
PROMPT = prompt_of(37)
TOKENS = 10


def engines(
    checkpoint: Checkpoint, cut: Ranks, held: LayerRange, dtype: torch.dtype = torch.float32
) -> list[TorchEngine]:
    return cut.each(lambda rank: load_torch_engine(checkpoint, held, 32, dtype, DEVICE, cut.shards[rank]))


def generate(cut: Ranks, stages: list[list[TorchEngine]]) -> list[list[int]]:
    """What every rank samples; `stages` lists the engines of each stage by rank."""

    def one(rank: int) -> list[int]:
        return Pipeline([engines[rank] for engines in stages]).generate(PROMPT, TOKENS, chunk=16)

    return cut.each(one)


@pytest.mark.parametrize(
    ("name", "whole_experts"),
    [
        ("llama-tied-biased", False),
        ("llama-one-kv-head", False),
        ("mistral", False),
        ("qwen2", False),
        ("qwen3", False),
        ("qwen3-moe", False),
        ("qwen3-moe", True),
        ("gpt-oss", False),
        ("gpt-oss", True),
    ],
)
def test_two_ranks_sample_the_tokens_of_transformers(tiny_model: Made, name: str, whole_experts: bool) -> None:
    checkpoint, model = tiny_model(name)
    expected = reference(model, PROMPT, TOKENS)
    with ranks(2, whole_experts) as cut:
        head = engines(checkpoint, cut, LayerRange(0, 2, first=True, last=False))
        tail = engines(checkpoint, cut, LayerRange(2, 4, first=False, last=True))
        sampled = generate(cut, [head, tail])
    assert sampled[0] == sampled[1]
    assert_same(sampled[0], expected)


@pytest.mark.parametrize("name", ["qwen3-moe", "gpt-oss"])
def test_replicas_that_share_experts_answer_each_its_own_prompt(tiny_model: Made, name: str) -> None:
    """The one with the shorter prompt has steps to take part in that are the other's alone."""
    checkpoint, model = tiny_model(name)
    prompts = (PROMPT, prompt_of(9, 1))
    steps = [-(-len(prompt) // 16) + TOKENS - 1 for prompt in prompts]
    held = LayerRange.whole(LAYERS)
    with ranks(2, whole_experts=True) as cut:
        every = cut.each(
            lambda rank: load_torch_engine(checkpoint, held, 32, torch.float32, DEVICE, cut.replicas[rank])
        )

        def one(rank: int) -> list[int]:
            tokens = Pipeline([every[rank]]).generate(prompts[rank], TOKENS, chunk=16)
            for _ in range(max(steps) - steps[rank]):
                every[rank].step(StepBatch(()), torch.empty(0))
            return tokens

        sampled = cut.each(one)
    for prompt, tokens in zip(prompts, sampled, strict=True):
        assert_same(tokens, reference(model, prompt, TOKENS))
    alone = load_torch_engine(checkpoint, held, 32, torch.float32, DEVICE)
    with pytest.raises(BadBatchError, match="at least one request"):
        alone.step(StepBatch(()), torch.empty(0))


def test_experts_that_cannot_be_spread_evenly_are_refused(tiny_model: Made) -> None:
    for name, words in (("llama", "a model without experts"), ("gpt-oss", "8 experts cannot be cut into 3")):
        decoder = decoder_config(tiny_model(name)[0].config)
        with ranks(3, whole_experts=True) as cut, pytest.raises(ValueError, match=words):
            cut.replicas[0].check(decoder)


@pytest.mark.parametrize("whole_experts", [False, True])
def test_packed_experts_are_cut_too(tmp_path: Path, whole_experts: bool) -> None:
    plain, packed = save_packed(tmp_path)
    expected = Pipeline.load(open_checkpoint(plain), [LAYERS]).generate(PROMPT, TOKENS)
    with ranks(2, whole_experts) as cut:
        sampled = generate(cut, [engines(open_checkpoint(packed), cut, LayerRange.whole(LAYERS))])
    assert sampled == [expected, expected]


def test_each_rank_holds_its_kv_heads_and_hands_them_over_by_their_number(tiny_model: Made) -> None:
    checkpoint, model = tiny_model("llama")
    target = Pipeline.load(checkpoint, [LAYERS])
    with ranks(2, whole_experts=False) as cut:
        shards = engines(checkpoint, cut, LayerRange.whole(LAYERS))
        (after, _) = cut.each(lambda rank: Pipeline([shards[rank]]).step([Running("x", tuple(PROMPT))], 64)[0])
    assert [(e.facts.first_kv_head, e.facts.kv_heads) for e in shards] == [(0, 1), (1, 1)]
    target.stages[0].reserve("x", len(PROMPT))
    for engine in shards:
        part = KvPart(0, LAYERS, engine.facts.first_kv_head, 1, 0, len(PROMPT))
        target.stages[0].import_kv("x", part, exported(engine, "x", part))
    running = after
    while len(running.tokens) < TOKENS:
        (running,) = target.step([running], chunk=1)
    assert_same(list(running.tokens), reference(model, PROMPT, TOKENS))


def test_bf16_sums_work_and_ranks_agree(tiny_model: Made) -> None:
    with ranks(2, whole_experts=False) as cut:
        shards = engines(tiny_model("llama")[0], cut, LayerRange.whole(LAYERS), torch.bfloat16)
        sampled = generate(cut, [shards])
    assert sampled[0] == sampled[1]


def test_a_model_that_cannot_be_cut_evenly_is_refused_with_what_does_not_divide(tiny_model: Made) -> None:
    checkpoint, _ = tiny_model("llama")
    with ranks(3, whole_experts=False) as cut, pytest.raises(ValueError, match="2 KV heads cannot be cut into 3"):
        engines(checkpoint, cut, LayerRange.whole(LAYERS))
