"""Architecture of a decoder as far as the engine needs it, read from its config.json."""

import math
from dataclasses import dataclass
from typing import Any

from agents.engines.torch_engine.decoder_part import PARTS, QWEN_VL, WHISPER
from agents.engines.torch_engine.rope import Rope, no_rope, rope_of
from agents.engines.torch_engine.weight_layout import WeightLayout, weight_layout
from templates_lib.models.attention_pattern import attention_of
from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.values.engines import support_of

FAMILIES = tuple(sorted(support_of("torch").families or ()))
"""`model_type`s, as the engine declares them."""


@dataclass(frozen=True, slots=True)
class ExpertsConfig:
    count: int
    active: int
    width: int
    normalised: bool
    """The weights of the active experts add up to one."""


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """One architecture out of FAMILIES, as switches; sizes in elements."""

    family: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_width: int
    vocab_size: int
    norm_epsilon: float
    windows: tuple[int, ...]
    """One a layer: keys that a query sees, itself included; 0: all."""
    rope: Rope
    fused_projections: bool
    """Queries, keys and values are published as one matrix, gate and up as another (Phi-3)."""
    query_key_value_bias: bool
    output_bias: bool
    head_norms: bool
    """Queries and keys of each head are normalised (Qwen3)."""
    sinks: bool
    """Each head has a logit that takes part in the softmax and has no value (gpt-oss)."""
    experts: ExpertsConfig | None
    weight_layout: WeightLayout | None
    """How quantised matrices are published; None: there are none, or experts in MXFP4."""
    tied_embeddings: bool
    max_context_tokens: int
    stop_token_ids: tuple[int, ...]
    encoded_tokens: int = 0
    """Rows of an encoder that every request attends to (Whisper)."""

    @property
    def is_whisper(self) -> bool:
        """Norms with biases, ungated feed-forward blocks, learned positions and attention to an encoder."""
        return self.family == WHISPER


def decoder_config(raw: dict[str, Any]) -> DecoderConfig:
    """Raises UnsupportedModelError with the key that cannot be run."""
    fields = Fields.of(raw, "")
    family = fields.text("model_type", "")
    if family not in (*FAMILIES, *PARTS):
        known = ", ".join((*FAMILIES, *PARTS))
        raise UnsupportedModelError("model_type", f"{family!r} is not run by the torch engine: {known}")
    if family == WHISPER:
        return _whisper(fields)
    _refuse_variants(fields, family)
    layers = fields.integer("num_hidden_layers", low=1, high=2048)
    hidden = fields.integer("hidden_size", low=1)
    attention = attention_of(fields, layers, hidden)
    biased = fields.flag("attention_bias", default=family in ("qwen2", "gpt_oss", QWEN_VL))
    context = fields.integer("max_position_embeddings", 0, high=1 << 30)
    return DecoderConfig(
        family=family,
        layers=layers,
        hidden_size=hidden,
        heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        ffn_width=fields.integer("intermediate_size", 0),
        vocab_size=fields.integer("vocab_size", low=1),
        norm_epsilon=_epsilon(fields),
        windows=attention.windows if _windowed(fields, family) else (0,) * layers,
        rope=rope_of(fields, attention.head_dim, context, rotates_parts=family == "phi3", has_axes=family == QWEN_VL),
        fused_projections=family == "phi3",
        query_key_value_bias=biased,
        output_bias=biased and family not in ("qwen2", QWEN_VL),
        head_norms=family in ("qwen3", "qwen3_moe"),
        sinks=family == "gpt_oss",
        experts=_experts(fields, family),
        weight_layout=weight_layout(fields, family),
        tied_embeddings=fields.flag("tie_word_embeddings", default=False),
        max_context_tokens=context,
        stop_token_ids=_stop_token_ids(fields),
    )


def _whisper(fields: Fields) -> DecoderConfig:
    """Its decoder's keys are beside those of its encoder."""
    if fields.text("activation_function", "gelu") != "gelu":
        raise UnsupportedModelError("activation_function", "only gelu is known")
    if fields.flag("scale_embedding", default=False):
        raise UnsupportedModelError("scale_embedding", "scaled embeddings are not known")
    layers = fields.integer("decoder_layers", low=1, high=2048)
    hidden = fields.integer("d_model", low=1)
    heads = fields.integer("decoder_attention_heads", low=1, high=hidden)
    if hidden % (2 * heads):
        raise UnsupportedModelError("decoder_attention_heads", f"{heads} heads of even size do not divide {hidden}")
    return DecoderConfig(
        family=WHISPER,
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn_width=fields.integer("decoder_ffn_dim", low=1),
        vocab_size=fields.integer("vocab_size", low=1),
        norm_epsilon=1e-5,  # torch's default, which no config names
        windows=(0,) * layers,
        rope=no_rope(hidden // heads),
        fused_projections=False,
        query_key_value_bias=True,
        output_bias=True,
        head_norms=False,
        sinks=False,
        experts=None,
        weight_layout=None,
        tied_embeddings=True,
        max_context_tokens=fields.integer("max_target_positions", low=1, high=1 << 20),
        stop_token_ids=_stop_token_ids(fields),
        encoded_tokens=fields.integer("max_source_positions", low=1, high=1 << 16),
    )


def _refuse_variants(fields: Fields, family: str) -> None:
    """Switches that these families' code has and no published checkpoint in them needs."""
    activation = fields.text("hidden_act", "silu")
    if activation != "silu":
        raise UnsupportedModelError("hidden_act", f"{activation!r} is not known: silu")
    if family == "qwen3_moe" and (fields.integers("mlp_only_layers") or fields.integer("decoder_sparse_step", 1) != 1):
        raise UnsupportedModelError("decoder_sparse_step", "dense layers between expert layers are not known")
    if fields.flag("mlp_bias", default=False):
        raise UnsupportedModelError("mlp_bias", "biases in the dense feed-forward block are not known")


def _windowed(fields: Fields, family: str) -> bool:
    """Llama has no window whatever the config says; Qwen uses one only where it says so."""
    return family in ("mistral", "phi3", "gpt_oss") or (
        family.startswith("qwen") and fields.flag("use_sliding_window", default=False)
    )


def _epsilon(fields: Fields) -> float:
    value = fields.raw.get("rms_norm_eps", 1e-6)
    if not isinstance(value, float | int) or not math.isfinite(value) or not 0 < value < 1:
        raise UnsupportedModelError("rms_norm_eps", f"must be a small positive number, is {value!r:.40}")
    return float(value)


def _experts(fields: Fields, family: str) -> ExpertsConfig | None:
    if family == "qwen3_moe":
        count = fields.integer(fields.name_of("num_experts", "num_local_experts") or "num_experts", low=1, high=1 << 16)
        active = fields.integer("num_experts_per_tok", low=1, high=count)
        width = fields.integer("moe_intermediate_size", low=1)
        return ExpertsConfig(count, active, width, fields.flag("norm_topk_prob", default=False))
    if family == "gpt_oss":
        count = fields.integer("num_local_experts", low=1, high=1 << 16)
        active = fields.integer("num_experts_per_tok", low=1, high=count)
        return ExpertsConfig(count, active, fields.integer("intermediate_size", low=1), normalised=True)
    return None


def _stop_token_ids(fields: Fields) -> tuple[int, ...]:
    value = fields.raw.get("eos_token_id")
    return fields.integers("eos_token_id") if isinstance(value, list) else () if value is None else (int(value),)
