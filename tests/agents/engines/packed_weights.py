"""Checkpoints in every quantised format, as it is published, beside the same numbers unpacked: written by what the
formats' publishers say, element by element, and not by what the engine does."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from agents.weights.safetensors_checkpoint import CONFIG, INDEX
from tests.agents.engines.packed_experts import save_packed
from tests.agents.engines.tiny_models import save_model

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""AutoAWQ, `gemm.py`: which output the i-th four bits of a word are."""
LAYERS = 3
_KEPT = ("norm", "embed_tokens", "lm_head", "mlp.gate.")
Stored = dict[str, torch.Tensor]
"""End of a tensor's name → what is stored."""


@dataclass(frozen=True)
class Format:
    config: dict[str, Any]
    """`quantization_config`."""
    quantised: Callable[[torch.Tensor, np.random.Generator], tuple[np.ndarray, Stored]]
    """A matrix → its numbers once they are quantised, and the tensors that stand for them."""


def save_in(form: Format, name: str, folder: Path, **sizes: int) -> tuple[Path, Path]:
    """Model `name` with its matrices as plain numbers, and the same numbers quantised."""
    plain, packed = folder / "plain", folder / "packed"
    for each in (plain, packed):
        save_model(name, each, **{"num_hidden_layers": LAYERS, **sizes})
    random = np.random.default_rng(7)
    file_of = {}
    for file in sorted(path.name for path in plain.glob("*.safetensors")):
        ours, theirs = load_file(plain / file), load_file(packed / file)
        for matrix in [n for n in ours if n.endswith(".weight") and not any(part in n for part in _KEPT)]:
            numbers, stored = form.quantised(ours[matrix], random)
            ours[matrix] = torch.from_numpy(numbers.astype(np.float32))
            del theirs[matrix]
            theirs |= {matrix.removesuffix("weight") + end: tensor.contiguous() for end, tensor in stored.items()}
        save_file(ours, plain / file, metadata={"format": "pt"})
        save_file(theirs, packed / file, metadata={"format": "pt"})
        file_of |= dict.fromkeys(theirs, file)
    (packed / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": file_of}))
    config = json.loads((packed / CONFIG).read_text())
    config["quantization_config"] = form.config
    (packed / CONFIG).write_text(json.dumps(config))
    return plain, packed


def words(codes: np.ndarray, bits: int, axis: int, order: tuple[int, ...] | None = None) -> torch.Tensor:
    """Codes packed along an axis into 32 bits, the first in the lowest; `order`: which of them is the i-th instead."""
    many = 32 // bits
    codes = np.moveaxis(codes.astype(np.uint64), axis, 0)
    codes = np.concatenate((codes, np.zeros((-len(codes) % many, *codes.shape[1:]), np.uint64)))
    packed = np.zeros((len(codes) // many, *codes.shape[1:]), np.uint64)
    for i, which in enumerate(order or range(many)):
        packed |= codes[which::many] << np.uint64(i * bits)
    return torch.from_numpy(np.moveaxis(packed, 0, axis).astype(np.uint32).view(np.int32).copy())


def _halves(values: np.ndarray) -> np.ndarray:
    """As fp16 has them."""
    return values.astype(np.float16).astype(np.float32)


def _integers(
    weight: torch.Tensor, random: np.random.Generator, bits: int, group: int, symmetric: bool, shuffled: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, codes (outputs, inputs), zero points and scales (outputs, groups), group of each input."""
    outputs, inputs = weight.shape
    groups = -(-inputs // group)
    group_of = np.arange(inputs) // group
    if shuffled:
        group_of = group_of[random.permutation(inputs)]
    most = (1 << bits) - 1
    codes = random.integers(0, most + 1, (outputs, inputs))
    middle = (most + 1) // 2
    zeros = np.full((outputs, groups), middle)
    if not symmetric:
        zeros = random.integers(middle - middle // 4, middle + middle // 4, (outputs, groups))
    scales = _halves(random.uniform(0.5, 1.5, (outputs, groups)) * 3 * float(weight.std()) / middle)
    numbers = (codes - zeros[:, group_of]) * scales[:, group_of]
    return numbers, codes, zeros, scales, group_of


def gptq(bits: int, group: int, *, v2: bool = False, desc_act: bool = False, symmetric: bool = False) -> Format:
    def quantised(weight: torch.Tensor, random: np.random.Generator) -> tuple[np.ndarray, Stored]:
        size = group if group > 0 else weight.shape[1]
        numbers, codes, zeros, scales, group_of = _integers(weight, random, bits, size, symmetric, desc_act)
        return numbers, {
            "qweight": words(codes.T, bits, 0),
            "qzeros": words((zeros.T - (0 if v2 else 1)) % (1 << bits), bits, 1),
            "scales": torch.from_numpy(scales.T.astype(np.float16).copy()),
            "g_idx": torch.from_numpy(group_of.astype(np.int32)),
        }

    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": desc_act, "sym": symmetric}
    return Format(config | ({"checkpoint_format": "gptq_v2"} if v2 else {}), quantised)


def awq(group: int) -> Format:
    def quantised(weight: torch.Tensor, random: np.random.Generator) -> tuple[np.ndarray, Stored]:
        numbers, codes, zeros, scales, _ = _integers(weight, random, 4, group, symmetric=False)
        return numbers, {
            "qweight": words(codes.T, 4, 1, AWQ_ORDER),
            "qzeros": words(zeros.T, 4, 1, AWQ_ORDER),
            "scales": torch.from_numpy(scales.T.astype(np.float16).copy()),
        }

    config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}
    return Format(config, quantised)


def compressed(form: str, **weights: Any) -> dict[str, Any]:
    """`quantization_config` of compressed-tensors."""
    group = {"weights": weights, "targets": ["Linear"], "input_activations": None}
    ignored = ["lm_head", "re:.*mlp.gate$"]
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": group},
        "ignore": ignored,
    }


def int_packed(bits: int, group: int, *, symmetric: bool = True) -> Format:
    def quantised(weight: torch.Tensor, random: np.random.Generator) -> tuple[np.ndarray, Stored]:
        numbers, codes, zeros, scales, _ = _integers(weight, random, bits, group, symmetric)
        stored = {
            "weight_packed": words(codes, bits, 1),
            "weight_scale": torch.from_numpy(scales.astype(np.float16)),
            "weight_shape": torch.tensor(weight.shape),
        }
        return numbers, stored | ({} if symmetric else {"weight_zero_point": words(zeros, bits, 0)})

    options = {"num_bits": bits, "type": "int", "strategy": "group", "group_size": group, "symmetric": symmetric}
    return Format(compressed("pack-quantized", **options), quantised)


def _int8_quantised(weight: torch.Tensor, random: np.random.Generator) -> tuple[np.ndarray, Stored]:
    codes = random.integers(-127, 128, weight.shape).astype(np.int8)
    scales = (random.uniform(0.5, 1.5, (len(weight), 1)) * 3 * float(weight.std()) / 127).astype(np.float32)
    return codes * scales, {"weight": torch.from_numpy(codes), "weight_scale": torch.from_numpy(scales)}


INT8 = Format(compressed("int-quantized", num_bits=8, type="int", strategy="channel", symmetric=True), _int8_quantised)


def _fp8_codes(weight: torch.Tensor, scales: torch.Tensor) -> tuple[np.ndarray, torch.Tensor]:
    codes = (weight / scales).to(torch.float8_e4m3fn)
    return (codes.float() * scales).numpy(), codes


def fp8_blocks(height: int, width: int) -> Format:
    def quantised(weight: torch.Tensor, _: np.random.Generator) -> tuple[np.ndarray, Stored]:
        rows, columns = -(-len(weight) // height), -(-weight.shape[1] // width)
        scales = torch.empty(rows, columns)
        for row in range(rows):
            for column in range(columns):
                block = weight[row * height : (row + 1) * height, column * width : (column + 1) * width]
                scales[row, column] = block.abs().max() / torch.finfo(torch.float8_e4m3fn).max
        wide = scales.repeat_interleave(height, 0).repeat_interleave(width, 1)
        numbers, codes = _fp8_codes(weight, wide[: len(weight), : weight.shape[1]])
        return numbers, {"weight": codes, "weight_scale_inv": scales}

    return Format({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [height, width]}, quantised)


def _fp8_whole(weight: torch.Tensor, _: np.random.Generator) -> tuple[np.ndarray, Stored]:
    scale = weight.abs().max() / 448
    numbers, codes = _fp8_codes(weight, scale)
    return numbers, {"weight": codes, "weight_scale": scale, "input_scale": torch.tensor(0.5)}


def _fp8_outputs(weight: torch.Tensor, _: np.random.Generator) -> tuple[np.ndarray, Stored]:
    scales = (weight.abs().amax(1, keepdim=True) / 448).to(torch.bfloat16)
    numbers, codes = _fp8_codes(weight, scales.float())
    return numbers, {"weight": codes, "weight_scale": scales}


FP8_BLOCKS = fp8_blocks(40, 48)
"""Neither divides the matrices of the tiny models: blocks at the ends are cut short."""
FP8_WHOLE = Format({"quant_method": "modelopt", "quant_algo": "FP8"}, _fp8_whole)
FP8_OUTPUTS = Format(compressed("float-quantized", num_bits=8, type="float", strategy="channel"), _fp8_outputs)


def nvfp4(*, compressed_tensors: bool) -> Format:
    def quantised(weight: torch.Tensor, random: np.random.Generator) -> tuple[np.ndarray, Stored]:
        outputs, inputs = weight.shape
        codes = random.integers(0, 16, (outputs, inputs)).astype(np.uint8)
        scales = torch.from_numpy(random.uniform(50, 400, (outputs, inputs // 16))).to(torch.float8_e4m3fn)
        whole = np.float32(float(weight.std()) / 400)
        numbers = E2M1[codes] * np.repeat(scales.float().numpy(), 16, axis=1) * whole
        packed = torch.from_numpy(codes[:, 0::2] | codes[:, 1::2] << 4)
        if compressed_tensors:
            stored = {"weight_packed": packed, "weight_global_scale": torch.tensor([1 / whole], dtype=torch.float32)}
        else:
            stored = {"weight": packed, "weight_scale_2": torch.tensor(whole), "input_scale": torch.tensor(0.01)}
        return numbers, stored | {"weight_scale": scales}

    if compressed_tensors:
        options = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True}
        return Format(compressed("nvfp4-pack-quantized", **options), quantised)
    return Format({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, quantised)


_WIDE = {"moe_intermediate_size": 64}
_LARGE = {"hidden_size": 192, "intermediate_size": 256}
"""So that a scale for each output is as little beside the weights as in models that are published, nearly."""
FORMATS: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "mxfp4, gpt-oss": save_packed,
    "fp8 blocks, llama": partial(save_in, FP8_BLOCKS, "llama-tied-biased"),
    "fp8 blocks, phi3": partial(save_in, FP8_BLOCKS, "phi3"),
    "fp8 blocks, qwen3-moe": partial(save_in, FP8_BLOCKS, "qwen3-moe"),
    "fp8 matrices, mistral": partial(save_in, FP8_WHOLE, "mistral"),
    "fp8 outputs, phi3": partial(save_in, FP8_OUTPUTS, "phi3", **_LARGE),
    "gptq int4, llama": partial(save_in, gptq(4, 32), "llama-tied-biased"),
    "gptq int4 v2, phi3": partial(save_in, gptq(4, 32, v2=True, symmetric=True), "phi3"),
    "gptq int4 in another order, qwen2": partial(save_in, gptq(4, 32, desc_act=True), "qwen2"),
    "gptq int4 in another order, qwen3-moe": partial(
        save_in, gptq(4, 32, desc_act=True, symmetric=True), "qwen3-moe", **_WIDE
    ),
    "gptq int8 of one group, qwen3": partial(save_in, gptq(8, -1), "qwen3"),
    "awq int4, qwen3": partial(save_in, awq(32), "qwen3"),
    "awq int4, qwen3-moe": partial(save_in, awq(32), "qwen3-moe", **_WIDE),
    "int4 packed, mistral": partial(save_in, int_packed(4, 32), "mistral"),
    "int4 packed with zero points, llama": partial(save_in, int_packed(4, 32, symmetric=False), "llama"),
    "int8 packed, qwen2": partial(save_in, int_packed(8, 64), "qwen2"),
    "int8 outputs, llama": partial(save_in, INT8, "llama", **_LARGE),
    "nvfp4 modelopt, qwen3-moe": partial(save_in, nvfp4(compressed_tensors=False), "qwen3-moe", **_WIDE),
    "nvfp4 packed, phi3": partial(save_in, nvfp4(compressed_tensors=True), "phi3"),
}
"""Format and family → saves a model unpacked and packed."""
OTHERS: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "fp8 blocks, qwen2": partial(save_in, FP8_BLOCKS, "qwen2"),
    "fp8 matrices, qwen3": partial(save_in, FP8_WHOLE, "qwen3"),
    "int8 packed, mistral": partial(save_in, int_packed(8, 64), "mistral"),
    "int8 outputs, phi3": partial(save_in, INT8, "phi3"),
    "gptq int8, qwen3-moe": partial(save_in, gptq(8, 32), "qwen3-moe"),
    "nvfp4 modelopt, llama": partial(save_in, nvfp4(compressed_tensors=False), "llama"),
    "nvfp4 packed, mistral": partial(save_in, nvfp4(compressed_tensors=True), "mistral"),
    "nvfp4 packed, qwen2": partial(save_in, nvfp4(compressed_tensors=True), "qwen2"),
    "nvfp4 modelopt, qwen3": partial(save_in, nvfp4(compressed_tensors=False), "qwen3"),
}
"""The same of what else is declared, whose parts are all among FORMATS."""
