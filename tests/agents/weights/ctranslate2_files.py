"""Writes a Whisper of transformers as CTranslate2's own converter does (`converters/transformers.py`)."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

NUMBERS = {np.dtype(np.float32): 0, np.dtype(np.int8): 1, np.dtype(np.int16): 2, np.dtype(np.float16): 4}
Array = np.ndarray[Any, Any]


def stored_arrays(model: PreTrainedModel) -> dict[str, Array]:
    """Stored name → array, fp32."""
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    arrays: dict[str, Array] = {}

    def linear(stored: str, *names: str) -> None:
        matrices = [weights[f"{name}.weight"] for name in names]
        zeros = np.zeros(len(matrices[0]), np.float32)
        arrays[f"{stored}/weight"] = np.concatenate(matrices)
        arrays[f"{stored}/bias"] = np.concatenate([weights.get(f"{name}.bias", zeros) for name in names])

    def norm(stored: str, name: str) -> None:
        arrays[f"{stored}/gamma"], arrays[f"{stored}/beta"] = weights[f"{name}.weight"], weights[f"{name}.bias"]

    for side in ("encoder", "decoder"):
        arrays[f"{side}/num_heads"] = np.array(getattr(model.config, f"{side}_attention_heads"), np.int16)
        arrays[f"{side}/position_encodings/encodings"] = weights[f"model.{side}.embed_positions.weight"]
        norm(f"{side}/layer_norm", f"model.{side}.layer_norm")
        for layer in range(getattr(model.config, f"{side}_layers")):
            name, stored = f"model.{side}.layers.{layer}", f"{side}/layer_{layer}"
            norm(f"{stored}/self_attention/layer_norm", f"{name}.self_attn_layer_norm")
            linear(f"{stored}/self_attention/linear_0", *(f"{name}.self_attn.{each}_proj" for each in "qkv"))
            linear(f"{stored}/self_attention/linear_1", f"{name}.self_attn.out_proj")
            norm(f"{stored}/ffn/layer_norm", f"{name}.final_layer_norm")
            linear(f"{stored}/ffn/linear_0", f"{name}.fc1")
            linear(f"{stored}/ffn/linear_1", f"{name}.fc2")
            if side == "decoder":
                norm(f"{stored}/attention/layer_norm", f"{name}.encoder_attn_layer_norm")
                linear(f"{stored}/attention/linear_0", f"{name}.encoder_attn.q_proj")
                linear(f"{stored}/attention/linear_1", *(f"{name}.encoder_attn.{each}_proj" for each in "kv"))
                linear(f"{stored}/attention/linear_2", f"{name}.encoder_attn.out_proj")
    arrays["decoder/embeddings/weight"] = weights["model.decoder.embed_tokens.weight"]
    for number in (1, 2):
        for kind in ("weight", "bias"):
            arrays[f"encoder/conv{number}/{kind}"] = weights[f"model.encoder.conv{number}.{kind}"]
    return arrays


def write_ctranslate2(folder: Path, arrays: dict[str, Array], spec: str = "WhisperSpec", version: int = 6) -> None:
    """Writes model.bin, and a vocabulary whose last token ends texts."""
    parts = [struct.pack("<I", version), _text(spec), struct.pack("<II", 3, len(arrays))]
    for name, array in arrays.items():
        raw = array.tobytes()
        shape = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        parts += [_text(name), shape, struct.pack("<BI", NUMBERS[array.dtype], len(raw)), raw]
    parts += [struct.pack("<I", 1), _text("decoder/projection/weight"), _text("decoder/embeddings/weight")]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.bin").write_bytes(b"".join(parts))
    tokens = len(arrays["decoder/embeddings/weight"]) if "decoder/embeddings/weight" in arrays else 1
    (folder / "vocabulary.txt").write_text("\n".join([*(f"t{i}" for i in range(tokens - 1)), "<|endoftext|>"]))


def _text(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def halves(arrays: dict[str, Array]) -> dict[str, Array]:
    """The same in fp16."""
    return {name: array.astype(np.float16) if array.dtype == np.float32 else array for name, array in arrays.items()}


def weights_of(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Those that a checkpoint has: the head is the embedding."""
    return {name: tensor for name, tensor in model.state_dict().items() if name != "proj_out.weight"}
