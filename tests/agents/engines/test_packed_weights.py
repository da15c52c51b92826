"""Quantised checkpoints give the tokens that transformers gives on the same numbers, and stay as small as they are."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.engine import load_torch_engine
from agents.engines.torch_engine.memory_need import memory_need
from agents.engines.torch_engine.stage_weights import read_stage
from agents.weights.checkpoint import Checkpoint
from agents.weights.source import open_checkpoint
from tests.agents.engines.packed_weights import FORMATS
from tests.agents.engines.pipelines import CPU, Pipeline, Running, hand_over
from tests.agents.engines.shards import ranks
from tests.agents.engines.tiny_models import LAYERS, assert_same, prompt_of, reference

PROMPT = prompt_of(37)
TOKENS = 8
Expected = tuple[list[int], list[float]]
Saved = Callable[[str], tuple[Checkpoint, Expected]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Format → the packed checkpoint, and what transformers says on the unpacked one."""

    @cache
    def made(name: str) -> tuple[Checkpoint, Expected]:
        folder: Path = tmp_path_factory.mktemp("packed")
        plain, packed = FORMATS[name](folder)
        model = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32).eval()
        return open_checkpoint(packed), reference(model, PROMPT, TOKENS)

    return made


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("layers", [(LAYERS,), (3, 3), (1, 4, 1)], ids=str)
def test_tokens_are_those_of_transformers_however_layers_are_cut(
    saved: Saved, name: str, layers: tuple[int, ...]
) -> None:
    checkpoint, expected = saved(name)
    assert_same(Pipeline.load(checkpoint, layers).generate(PROMPT, TOKENS, chunk=16), expected)


@pytest.mark.parametrize("name", FORMATS)
def test_decode_goes_on_in_another_cut(saved: Saved, name: str) -> None:
    checkpoint, expected = saved(name)
    prefill, decode = Pipeline.load(checkpoint, [4, 2]), Pipeline.load(checkpoint, [1, 2, 3])
    (running,) = prefill.step([Running("x", tuple(PROMPT))], chunk=64)
    hand_over("x", len(PROMPT), prefill, decode)
    while len(running.tokens) < TOKENS:
        (running,) = decode.step([running], chunk=1)
    assert_same(list(running.tokens), expected)


@pytest.mark.parametrize("name", FORMATS)
def test_two_ranks_cut_through_blocks(saved: Saved, name: str) -> None:
    checkpoint, expected = saved(name)
    held = LayerRange.whole(LAYERS)
    with ranks(2, whole_experts=False) as cut:
        shards = cut.each(lambda rank: load_torch_engine(checkpoint, held, 32, torch.float32, CPU, cut.shards[rank]))
        for tokens in cut.each(lambda rank: Pipeline([shards[rank]]).generate(PROMPT, TOKENS, chunk=16)):
            assert_same(tokens, expected)


@pytest.mark.parametrize("name", FORMATS)
def test_weights_take_the_bytes_of_the_checkpoint(saved: Saved, name: str) -> None:
    checkpoint, _ = saved(name)
    config = decoder_config(checkpoint.config)
    held = LayerRange(1, 4, first=False, last=False)
    in_layers = [n for n in checkpoint.names if any(f".layers.{i}." in n for i in range(1, 5))]
    stored = sum(checkpoint.stored_bytes(n) for n in in_layers)
    stage = read_stage(checkpoint, config, held, torch.float32, CPU)
    kept = sum(tensor.numel() * tensor.element_size() for tensor in tensors(stage.layers))
    needed = memory_need(checkpoint, config, held, torch.float32).weight_bytes
    assert kept == pytest.approx(stored, rel=0.03)
    assert needed == pytest.approx(kept, rel=0.03)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All that a stage holds."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from tensors(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from tensors(getattr(value, field.name))
