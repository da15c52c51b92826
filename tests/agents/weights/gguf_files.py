"""Writes small GGUF files with the gguf package's own writer."""

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

HIDDEN, HEADS, KV_HEADS, WIDTH, VOCABULARY, EXPERTS = 64, 4, 2, 96, 128, 4


def rows_of(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def shapes(architecture: str) -> dict[str, tuple[int, ...]]:
    """Stored tensors of one layer and the ends."""
    ffn = {"ffn_gate": (WIDTH, HIDDEN), "ffn_up": (WIDTH, HIDDEN), "ffn_down": (HIDDEN, WIDTH)}
    if architecture == "qwen3moe":
        ffn = {f"{name}_exps": (EXPERTS, *shape) for name, shape in ffn.items()} | {"ffn_gate_inp": (EXPERTS, HIDDEN)}
    layer = {
        "attn_norm": (HIDDEN,),
        "ffn_norm": (HIDDEN,),
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (HIDDEN // 2, HIDDEN),
        "attn_v": (HIDDEN // 2, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        **ffn,
    }
    ends = {"token_embd.weight": (VOCABULARY, HIDDEN), "output_norm.weight": (HIDDEN,)}
    return ends | {f"blk.0.{name}.weight": shape for name, shape in layer.items()}


def write_gguf(path: Path, architecture: str, kind: GGMLQuantizationType, vocabulary: int = 8) -> dict[str, Any]:
    """Writes a model of one layer, its matrices stored as `kind`; what was written, by stored name."""
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_eos_token_id(2)
    writer.add_token_list([f"token {i}" for i in range(vocabulary)])
    if architecture == "qwen3moe":
        writer.add_expert_count(EXPERTS)
        writer.add_expert_used_count(2)
        writer.add_expert_feed_forward_length(WIDTH)
    written = {name: rows_of(shape, i) for i, (name, shape) in enumerate(shapes(architecture).items())}
    for name, rows in written.items():
        stored = kind if rows.ndim > 1 else GGMLQuantizationType.F32
        writer.add_tensor(name, quantize(rows, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written
