"""What loading takes is known before it is done, and a budget is kept."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from agents.engines.errors import OutOfMemoryError
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.engine import load_torch_engine
from agents.engines.torch_engine.memory_need import memory_need
from agents.engines.torch_engine.shard import Shard
from agents.weights.checkpoint import Checkpoint
from agents.weights.meter import MeteredCheckpoint
from agents.weights.source import open_checkpoint
from templates_lib.models.held_model import held_by
from templates_lib.models.hf_config import model_from_hf_config
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.packed_experts import save_packed
from tests.agents.engines.pipelines import DEVICE
from tests.agents.engines.tiny_models import LAYERS, MODELS

Made = Callable[[str], TinyModel]
NOT_PACKED = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
"""Of gpt-oss, as its published config.json says."""
WHOLE_MODEL = LayerRange.whole(LAYERS)


@pytest.mark.parametrize("name", MODELS)
def test_weights_of_all_stages_are_the_models_parameters(tiny_model: Made, name: str) -> None:
    """A tied embedding counts twice: on the first stage, and on the last as its head."""
    checkpoint, model = tiny_model(name)
    config = decoder_config(checkpoint.config)
    cuts = (LayerRange(0, 2, True, False), LayerRange(2, 3, False, False), LayerRange(5, 1, False, True))
    needed = sum(memory_need(checkpoint, config, held, torch.bfloat16).weight_bytes for held in cuts)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    tied = config.vocab_size * config.hidden_size if config.tied_embeddings else 0
    assert needed == 2 * (parameters + tied)
    assert memory_need(checkpoint, config, WHOLE_MODEL, torch.float32).weight_bytes == 4 * parameters


def declared(checkpoint: Checkpoint) -> float:
    """Bytes that plans count with."""
    return held_by("torch", model_from_hf_config(checkpoint.config, "m", "r")).weight_bytes


@pytest.mark.parametrize("name", MODELS)
def test_plans_count_the_bytes_that_are_held(tiny_model: Made, name: str) -> None:
    checkpoint, _ = tiny_model(name)
    needed = memory_need(checkpoint, decoder_config(checkpoint.config), WHOLE_MODEL, torch.bfloat16).weight_bytes
    assert declared(checkpoint) == pytest.approx(needed, rel=0.03)


def test_plans_count_the_bytes_of_experts_that_are_kept_packed(tmp_path: Path) -> None:
    _, packed = save_packed(tmp_path)
    config = json.loads((packed / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": NOT_PACKED}
    (packed / "config.json").write_text(json.dumps(config))
    checkpoint = open_checkpoint(packed)
    needed = memory_need(checkpoint, decoder_config(checkpoint.config), WHOLE_MODEL, torch.bfloat16).weight_bytes
    assert declared(checkpoint) == pytest.approx(needed, rel=0.03)


def test_halves_take_more_than_half_by_what_both_hold(tiny_model: Made) -> None:
    checkpoint, _ = tiny_model("llama")
    config = decoder_config(checkpoint.config)
    whole = memory_need(checkpoint, config, WHOLE_MODEL, torch.float32)
    half = memory_need(checkpoint, config, WHOLE_MODEL, torch.float32, Shard(1, 2, False, lambda tensor: tensor))
    both = 4 * (2 * LAYERS + 1) * config.hidden_size  # norms
    assert 2 * half.weight_bytes == whole.weight_bytes + both
    assert 2 * half.kv_block_bytes == whole.kv_block_bytes


def test_a_budget_is_checked_before_a_byte_is_read(tiny_model: Made) -> None:
    checkpoint, _ = tiny_model("llama")
    need = memory_need(checkpoint, decoder_config(checkpoint.config), WHOLE_MODEL, torch.float32)
    budget = need.total_bytes(10)
    assert need.kv_blocks_within(budget) == 10
    assert need.kv_blocks_within(budget - 1) == 9
    assert need.kv_blocks_within(5) == 0
    metered = MeteredCheckpoint(checkpoint)
    with pytest.raises(OutOfMemoryError, match="at most 10 blocks"):
        load_torch_engine(metered, WHOLE_MODEL, 11, torch.float32, DEVICE, memory_bytes=budget)
    assert metered.reading.names == ()
    engine = load_torch_engine(metered, WHOLE_MODEL, 10, torch.float32, DEVICE, memory_bytes=budget)
    cache = 2 * 10 * LAYERS * 16 * 2 * 16 * 4
    assert need.total_bytes(10) == need.weight_bytes + cache
    assert engine.facts.kv_blocks == 10
