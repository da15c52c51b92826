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
from templates_lib.models.held_model import held_by, refusal
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.ports.cost_model import Parallel
from templates_lib.values.engine_support import PLAIN_BYTES
from templates_lib.values.engines import support_of
from templates_lib.values.stored_weights import StoredWeights
from tests.agents.engines.node_splits import split_model
from tests.agents.engines.packed_weights import FORMATS, OTHERS
from tests.agents.engines.pipelines import DEVICE, Pipeline, Running, hand_over
from tests.agents.engines.shards import ranks
from tests.agents.engines.tiny_models import assert_same, prompt_of, reference

PROMPT = prompt_of(20)
TOKENS = 6
Expected = tuple[list[int], list[float]]
Saved = Callable[[str], tuple[Checkpoint, Expected]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Format → the packed checkpoint, and what transformers says on the unpacked one."""

    @cache
    def made(name: str) -> tuple[Checkpoint, Expected]:
        folder: Path = tmp_path_factory.mktemp("packed")
        plain, packed = (FORMATS | OTHERS)[name](folder)
        model = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32).eval()
        return open_checkpoint(packed), reference(model, PROMPT, TOKENS)

    return made


def test_every_format_that_is_declared_is_tried_in_every_family_that_has_it() -> None:
    support = support_of("torch")
    tried = set()
    for form, family in (name.split(", ") for name in FORMATS | OTHERS):
        tried.add((next(word for word in form.split() if word in support.weights), family.replace("-", "_")))
    quantised = support.weights.keys() - PLAIN_BYTES
    declared = {
        (each, family) for each in quantised for family in support.families or () if support.reads(family, each)
    }
    assert tried == declared


@pytest.mark.parametrize("name", [*FORMATS, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_tokens_are_those_of_transformers_with_decode_in_another_cut(saved: Saved, name: str) -> None:
    checkpoint, expected = saved(name)
    layers = decoder_config(checkpoint.config).layers
    prefill, decode = Pipeline.load(checkpoint, [1, layers - 1]), Pipeline.load(checkpoint, [layers - 1, 1])
    running = Running("x", tuple(PROMPT))
    while not running.tokens:
        (running,) = prefill.step([running], chunk=16)
    hand_over("x", len(PROMPT), prefill, decode)
    while len(running.tokens) < TOKENS:
        (running,) = decode.step([running], chunk=1)
    assert_same(list(running.tokens), expected)


@pytest.mark.parametrize("name", FORMATS)
def test_two_ranks_cut_through_blocks(saved: Saved, name: str) -> None:
    checkpoint, expected = saved(name)
    held = LayerRange.whole(decoder_config(checkpoint.config).layers)
    with ranks(2, whole_experts=False) as cut:
        shards = cut.each(lambda rank: load_torch_engine(checkpoint, held, 32, torch.float32, DEVICE, cut.shards[rank]))
        for tokens in cut.each(lambda rank: Pipeline([shards[rank]]).generate(PROMPT, TOKENS, chunk=16)):
            assert_same(tokens, expected)


@pytest.mark.parametrize("name", [name for name in FORMATS if name.endswith(("moe", "gpt-oss"))])
@pytest.mark.parametrize("parallel", [Parallel(tp=2, ep=2), Parallel(dp=2, ep=2)], ids=str)
def test_packed_experts_are_spread_over_devices(saved: Saved, name: str, parallel: Parallel) -> None:
    """Over ranks of one replica, and over replicas."""
    checkpoint, expected = saved(name)
    config = decoder_config(checkpoint.config)
    with split_model(parallel) as model:
        model.load(checkpoint, config.layers)
        after_prompt = model.prompted([PROMPT] * model.replicas)
        for tokens in model.finished(after_prompt, TOKENS):
            assert_same(tokens, expected)
        for shard, (engine,) in zip(model.shards, model.engines, strict=True):
            need = memory_need(checkpoint, config, engine.facts.held, torch.float32, shard).weight_bytes
            assert need == pytest.approx(held_bytes(engine._stage), rel=0.03)


@pytest.mark.parametrize("name", FORMATS)
def test_weights_take_the_bytes_of_the_checkpoint_and_plans_count_them(saved: Saved, name: str) -> None:
    checkpoint, _ = saved(name)
    config = decoder_config(checkpoint.config)
    held = LayerRange.whole(config.layers)
    stage = read_stage(checkpoint, config, held, torch.bfloat16, DEVICE)
    kept = held_bytes(stage.layers)
    in_layers = [each for each in checkpoint.names if ".layers." in each]
    not_held = ("weight_shape", "input_scale", *(() if "another order" in name else ("g_idx",)))
    stored = sum(_held(checkpoint, each) for each in in_layers if not each.endswith(not_held))
    assert kept == pytest.approx(stored, rel=0.03)
    everything = held_bytes(stage)
    needed = memory_need(checkpoint, config, held, torch.bfloat16).weight_bytes
    assert needed == pytest.approx(everything, rel=0.03)
    assert refusal("torch", "m", stored_of(checkpoint)) is None
    planned = held_by("torch", model_from_hf_config(checkpoint.config, "m", "r"))
    assert planned.weight_bytes == pytest.approx(everything, rel=0.03)


def _held(checkpoint: Checkpoint, name: str) -> int:
    """Bytes of a tensor as it is stored, of plain numbers in half of these models' fp32; an input's group takes one."""
    if name.endswith("g_idx"):
        return checkpoint.stored_bytes(name) // 4
    is_plain = name.endswith((".bias", "_bias", "norm.weight", "sinks", "gate.weight", "router.weight"))
    is_plain |= "self_attn" in name and "_proj.weight" in name and checkpoint.config["model_type"] == "gpt_oss"
    return checkpoint.stored_bytes(name) // (2 if is_plain else 1)


def stored_of(checkpoint: Checkpoint) -> StoredWeights:
    stored = model_from_hf_config(checkpoint.config, "m", "r").stored
    assert stored is not None
    return stored


def held_bytes(value: Any) -> int:
    """Of all that a stage holds: what is there twice, as a tied head is, counts once. What oneDNN has packed for this
    machine's processor has no address."""
    places = {
        tensor.data_ptr() if tensor.layout is torch.strided else id(tensor): tensor.nbytes for tensor in tensors(value)
    }
    return sum(places.values())


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
