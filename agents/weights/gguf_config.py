"""A GGUF file's metadata in the words of a Hugging Face config.json."""

from pathlib import Path
from typing import Any

from agents.weights.errors import CorruptWeightsError, WeightsError, nearest
from agents.weights.gguf_header import GgufHeader

MODEL_TYPES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3moe": "qwen3_moe"}
"""Architectures whose GGUF tensors are the published ones under other names (llama's with rotated rows)."""
CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3moe": "Qwen3MoeForCausalLM",
}


def hf_config(path: Path, header: GgufHeader) -> dict[str, Any]:
    """Raises WeightsError for an architecture not known, CorruptWeightsError where a needed key is missing."""
    metadata = header.metadata
    architecture = metadata.get("general.architecture")
    if architecture not in MODEL_TYPES:
        raise WeightsError(
            f"{path}: GGUF architecture {architecture!r} is not read{nearest(str(architecture), MODEL_TYPES)} "
            f"Known are {', '.join(MODEL_TYPES)}; use the model's safetensors"
        )

    def of(key: str, default: Any = None) -> Any:
        value = metadata.get(f"{architecture}.{key}", default)
        if value is None:
            raise CorruptWeightsError(path, f"has no key {architecture}.{key}")
        return value

    heads, hidden = of("attention.head_count"), of("embedding_length")
    if not (isinstance(heads, int) and isinstance(hidden, int) and heads > 0):
        raise CorruptWeightsError(path, f"has {heads!r} attention heads in {hidden!r} elements")
    config: dict[str, Any] = {
        "model_type": MODEL_TYPES[architecture],
        "architectures": [CLASSES[architecture]],
        "num_hidden_layers": of("block_count"),
        "hidden_size": hidden,
        "intermediate_size": of("feed_forward_length", 0),
        "num_attention_heads": heads,
        "num_key_value_heads": of("attention.head_count_kv", heads),
        "head_dim": of("attention.key_length", of("rope.dimension_count", hidden // heads)),
        "max_position_embeddings": of("context_length"),
        "rms_norm_eps": of("attention.layer_norm_rms_epsilon"),
        "rope_theta": of("rope.freq_base", 10000.0),
        "vocab_size": header.tensors["token_embd.weight"].shape[0] if "token_embd.weight" in header.tensors else 0,
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id"),
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
        "rope_scaling": _rope_scaling(path, metadata, str(architecture)),
    }
    if "expert_count" in {key.removeprefix(f"{architecture}.") for key in metadata}:
        config |= {
            "num_experts": of("expert_count"),
            "num_experts_per_tok": of("expert_used_count"),
            "moe_intermediate_size": of("expert_feed_forward_length"),
            "norm_topk_prob": True,  # Qwen3-MoE's publishers do; GGUF has no key for it
        }
    return config


def _rope_scaling(path: Path, metadata: dict[str, Any], architecture: str) -> dict[str, Any] | None:
    kind = metadata.get(f"{architecture}.rope.scaling.type", "none")
    if kind == "none":
        return None
    factor = metadata.get(f"{architecture}.rope.scaling.factor")
    if kind not in ("linear", "yarn") or factor is None:
        raise WeightsError(f"{path}: rope scaling {kind!r} (factor {factor}) is not read; use the model's safetensors")
    scaling = {"rope_type": kind, "factor": factor}
    original = metadata.get(f"{architecture}.rope.scaling.original_context_length")
    return scaling | ({"original_max_position_embeddings": original} if original else {})
