"""Small random models of every architecture the torch engine runs, saved and run by transformers."""

import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import (
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

LAYERS = 6
VOCABULARY = 192
NEAR_TIE = 1e-4
"""Where the two best logits are nearer than this, rounding may choose either."""
SIZES: dict[str, Any] = {
    "num_hidden_layers": LAYERS,
    "hidden_size": 96,
    "intermediate_size": 128,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
LONG = {
    "original_max_position_embeddings": 32,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "partial_rotary_factor": 0.75,
        "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
        "long_factor": [1.0, 1.5, 2.0, 3.0, 5.0, 8.0],
    },
}
MOE = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32}
MODELS: dict[str, tuple[type[Any], type[Any], dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {"rope_parameters": LLAMA3}),
    "llama-tied-biased": (
        LlamaConfig,
        LlamaForCausalLM,
        {"rope_parameters": LINEAR, "tie_word_embeddings": True, "attention_bias": True},
    ),
    "llama-one-kv-head": (LlamaConfig, LlamaForCausalLM, {"num_key_value_heads": 1, "attention_bias": True}),
    "mistral": (MistralConfig, MistralForCausalLM, {"sliding_window": 24}),
    "phi3": (Phi3Config, Phi3ForCausalLM, {"rope_parameters": {"rope_type": "default", "rope_theta": 250000.0}}),
    "phi3-long-partial": (
        Phi3Config,
        Phi3ForCausalLM,
        {**LONG, "tie_word_embeddings": True, "num_key_value_heads": 3, "sliding_window": 28},
    ),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {"rope_parameters": YARN}),
    "qwen2-windowed": (
        Qwen2Config,
        Qwen2ForCausalLM,
        {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 3},
    ),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"tie_word_embeddings": True, "head_dim": 32}),
    "qwen3-moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM, {**MOE, "norm_topk_prob": True}),
    "qwen3-moe-unnormalised": (Qwen3MoeConfig, Qwen3MoeForCausalLM, {**MOE, "norm_topk_prob": False}),
    "gpt-oss": (
        GptOssConfig,
        GptOssForCausalLM,
        {"num_local_experts": 8, "num_experts_per_tok": 3, "sliding_window": 20},
    ),
}


def save_model(name: str, folder: Path, dtype: torch.dtype = torch.float32, **sizes: int) -> PreTrainedModel:
    """Saves model `name` in shards and returns it. Every parameter is random, biases, norms and sinks too. `sizes`: of
    its config, where they are to be others."""
    config, model_class, changes = MODELS[name]
    return save_random(model_class(config(**{**SIZES, **changes, **sizes})), folder, len(name), dtype)


def save_random(model: PreTrainedModel, folder: Path, seed: int, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Saves a model with other weights in shards and returns it."""
    generator = torch.Generator().manual_seed(seed)
    for parameter_name, parameter in model.named_parameters():
        centre = 1.0 if "norm" in parameter_name else 0.0
        scale = 0.3 if parameter.dim() == 1 else parameter.shape[-1] ** -0.5 * 1.5
        parameter.data = centre + scale * torch.randn(parameter.shape, generator=generator)
    model = model.to(dtype).eval()
    model.save_pretrained(folder, max_shard_size="100KB")
    return model


@torch.inference_mode()
def reference(model: PreTrainedModel, prompt: list[int], tokens: int) -> tuple[list[int], list[float]]:
    """Greedy continuation by transformers, the whole text recomputed for every token, and the gap between the two best
    logits at each."""
    ids, gaps = list(prompt), []
    for _ in range(tokens):
        best = model(torch.tensor([ids])).logits[0, -1].float().topk(2)
        ids.append(int(best.indices[0]))
        gaps.append(float(best.values[0] - best.values[1]))
    return ids[len(prompt) :], gaps


def prompt_of(length: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randint(0, VOCABULARY, (length,), generator=generator).tolist()


def assert_same(tokens: list[int], expected: tuple[list[int], list[float]]) -> None:
    """Equal token for token, but for what follows a near tie."""
    ids, gaps = expected
    first = next((i for i, (a, b) in enumerate(zip(tokens, ids, strict=True)) if a != b), None)
    assert first is None or gaps[first] < NEAR_TIE, f"token {first}: {tokens} is not {ids}"
