"""Quantised checkpoints that are damaged, mixed up or of a kind that nobody reads are refused by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.engine import load_torch_engine
from agents.weights.errors import WeightsError
from agents.weights.safetensors_checkpoint import CONFIG, INDEX
from agents.weights.source import open_checkpoint
from templates_lib.models.config_fields import UnsupportedModelError
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.packed_weights import FP8_WHOLE, Format, awq, compressed, gptq, nvfp4, save_in
from tests.agents.engines.pipelines import DEVICE

MATRIX = "model.layers.0.self_attn.o_proj"
Tensors = dict[str, torch.Tensor]


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Format], Path]:
    return lambda form: save_in(form, "llama", tmp_path, num_hidden_layers=1)[1]


def change(folder: Path, name: str, made: Callable[[torch.Tensor], torch.Tensor] | None) -> None:
    """Write another tensor in its place; None: take it out."""
    index = json.loads((folder / INDEX).read_text())
    file = index["weight_map"][name]
    tensors = load_file(folder / file)
    tensor = tensors.pop(name)
    if made is None:
        del index["weight_map"][name]
    else:
        tensors[name] = made(tensor)
    save_file(tensors, folder / file, metadata={"format": "pt"})
    (folder / INDEX).write_text(json.dumps(index))


def load(folder: Path) -> None:
    load_torch_engine(open_checkpoint(folder), LayerRange.whole(1), 4, torch.float32, DEVICE)


@pytest.mark.parametrize(
    ("form", "piece"),
    [
        (gptq(4, 32), "scales"),
        (gptq(4, 32), "qzeros"),
        (awq(32), "qweight"),
        (nvfp4(compressed_tensors=False), "weight_scale_2"),
        (nvfp4(compressed_tensors=True), "weight_global_scale"),
        (FP8_WHOLE, "weight_scale"),
    ],
)
def test_a_missing_part_of_a_matrix_is_named(saved: Callable[[Format], Path], form: Format, piece: str) -> None:
    folder = saved(form)
    change(folder, f"{MATRIX}.{piece}", None)
    with pytest.raises(WeightsError, match=MATRIX) as caught:
        load(folder)
    assert "bf16" in str(caught.value)


@pytest.mark.parametrize(
    ("piece", "made"),
    [
        ("scales", lambda scales: scales[:1].clone()),
        ("qweight", lambda words: words.view(torch.float32)),
        ("qweight", lambda words: words.T.contiguous()),
        ("g_idx", lambda groups: groups + 90),
    ],
)
def test_tensors_that_are_not_what_the_config_says(
    saved: Callable[[Format], Path], piece: str, made: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    folder = saved(gptq(4, 32))
    change(folder, f"{MATRIX}.{piece}", made)
    with pytest.raises(WeightsError, match=f"{MATRIX}.{piece}"):
        load(folder)


def test_a_group_size_that_is_not_that_of_the_files(saved: Callable[[Format], Path]) -> None:
    folder = saved(awq(32))
    config = json.loads((folder / CONFIG).read_text())
    config["quantization_config"]["group_size"] = 48
    (folder / CONFIG).write_text(json.dumps(config))
    with pytest.raises(WeightsError, match=r"q_proj\.(qzeros|scales)' has shape .* each 48 inputs"):
        load(folder)
    del config["quantization_config"]
    (folder / CONFIG).write_text(json.dumps(config))
    with pytest.raises(WeightsError, match=r"q_proj' is quantised .* no quantization_config"):
        load(folder)


@pytest.mark.parametrize(
    ("quantisation", "key"),
    [
        ({"quant_method": "aqlm"}, "quant_method"),
        ({"quant_method": "mxfp4"}, "quant_method"),
        ({"quant_method": "gptq", "bits": 3}, "bits"),
        ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "checkpoint_format"),
        ({"quant_method": "gptq", "bits": 4, "lm_head": True}, "lm_head"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "version"),
        ({"quant_method": "awq", "bits": 8}, "bits"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "quant_algo"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32}, "group_size"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        (compressed("marlin-24", num_bits=4, type="int"), "format"),
        ({"quant_method": "compressed-tensors"}, "config_groups"),
    ],
)
def test_formats_that_are_not_read(
    tiny_model: Callable[[str], TinyModel], quantisation: dict[str, Any], key: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=key):
        decoder_config(tiny_model("llama")[0].config | {"quantization_config": quantisation})


def test_experts_of_gpt_oss_are_read_in_their_own_format_alone(tiny_model: Callable[[str], TinyModel]) -> None:
    config = tiny_model("gpt-oss")[0].config | {"quantization_config": {"quant_method": "gptq", "bits": 4}}
    with pytest.raises(UnsupportedModelError, match="use mxfp4"):
        decoder_config(config)
