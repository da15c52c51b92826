"""Checkpoints in every quantised format, beside the same numbers unpacked."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from agents.weights.safetensors_checkpoint import CONFIG, INDEX
from tests.agents.engines.packed_experts import save_packed
from tests.agents.engines.tiny_models import save_model

BLOCK = (40, 48)
"""Neither divides the matrices of the tiny models: blocks at the ends are cut short."""
_KEPT = ("norm", "embed_tokens", "lm_head", "mlp.gate.")


def save_in_fp8(name: str, folder: Path) -> tuple[Path, Path]:
    """Model `name` with its matrices as plain numbers, and the same numbers in FP8 with a scale a block."""
    plain, packed = folder / "plain", folder / "packed"
    save_model(name, plain)
    save_model(name, packed)
    file_of = {}
    for file in sorted(path.name for path in plain.glob("*.safetensors")):
        ours, theirs = load_file(plain / file), load_file(packed / file)
        for matrix in [n for n in ours if n.endswith(".weight") and not any(part in n for part in _KEPT)]:
            codes, scales = _quantised(ours[matrix])
            ours[matrix] = codes.float() * _spread(scales, codes.shape)
            theirs |= {matrix: codes, f"{matrix}_scale_inv": scales}
        save_file(ours, plain / file, metadata={"format": "pt"})
        save_file(theirs, packed / file, metadata={"format": "pt"})
        file_of |= dict.fromkeys(theirs, file)
    (packed / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": file_of}))
    config = json.loads((packed / CONFIG).read_text())
    config["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": list(BLOCK)}
    (packed / CONFIG).write_text(json.dumps(config))
    return plain, packed


def _quantised(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = (-(-size // block) for size, block in zip(weight.shape, BLOCK, strict=True))
    scales = torch.empty(rows, columns)
    for row in range(rows):
        for column in range(columns):
            block = weight[row * BLOCK[0] : (row + 1) * BLOCK[0], column * BLOCK[1] : (column + 1) * BLOCK[1]]
            scales[row, column] = block.abs().max() / torch.finfo(torch.float8_e4m3fn).max
    return (weight / _spread(scales, weight.shape)).to(torch.float8_e4m3fn), scales


def _spread(scales: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    wide = scales.repeat_interleave(BLOCK[0], 0).repeat_interleave(BLOCK[1], 1)
    return wide[: shape[0], : shape[1]]


FORMATS: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "mxfp4 gpt-oss": save_packed,
    "fp8 llama": partial(save_in_fp8, "llama-tied-biased"),
    "fp8 phi3": partial(save_in_fp8, "phi3"),
    "fp8 qwen3-moe": partial(save_in_fp8, "qwen3-moe"),
}
"""Format and family → saves a model unpacked and packed."""
