"""Whatever the catalogue offers, the torch engine runs: its families, and what they say of rope."""

import json
from importlib.resources import files
from typing import Any

import pytest
import torch
from transformers import Phi3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from agents.engines.torch_engine.decoder_config import decoder_config
from templates_lib.models.catalogue import load_models
from templates_lib.values.engines import support_of
from tests.agents.engines.tiny_models import LONG, MODELS, SIZES

FACTS = sorted(path.name for path in files("templates_lib").joinpath("data", "models").iterdir() if path.is_file())


@pytest.mark.parametrize("name", FACTS)
def test_every_model_of_the_catalogue_is_read(name: str) -> None:
    raw = json.loads(files("templates_lib").joinpath("data", "models", name).read_text())["config"]
    config = decoder_config(raw)
    assert config.layers == raw["num_hidden_layers"]
    assert config.heads % config.kv_heads == 0
    assert (config.experts is not None) == ("num_experts_per_tok" in raw)


def test_the_families_that_are_declared_are_those_that_are_tried() -> None:
    tried = {config.model_type for config, _, _ in MODELS.values()}
    assert tried == support_of("torch").families
    for model in load_models().values():
        assert model.stored is not None
        assert model.stored.family in tried


@pytest.mark.parametrize("original", [32, 256])
def test_long_factors_are_those_of_a_model_whose_context_was_stretched(original: int) -> None:
    changes: dict[str, Any] = {**SIZES, **LONG, "original_max_position_embeddings": original}
    theirs = Phi3Config(**changes)
    frequencies, factor = ROPE_INIT_FUNCTIONS["longrope"](theirs, torch.device("cpu"), seq_len=256)
    rope = decoder_config(theirs.to_dict() | {"max_position_embeddings": 256}).rope
    torch.testing.assert_close(torch.tensor(rope.inverse_frequencies), frequencies)
    assert rope.attention_factor == pytest.approx(factor)
