"""Storage formats of a checkpoint's weights, read from `quantization_config` of a Hugging Face config.json."""

import re
from dataclasses import dataclass
from typing import Any

from templates_lib.models.config_fields import Fields, UnsupportedModelError

MAX_PATTERNS = 1_000_000
SCALED_BLOCK = {"mxfp4": 32, "nvfp4": 16}
NOMINAL_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "mxfp4": 17 / 32, "nvfp4": 9 / 16, "int4": 0.516}
"""Bytes of one stored weight, scales of the usual group included (MX and NVFP4: one byte per 32 and 16 weights)."""


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """Storage of one kind of matrix: its data type, the type its products are computed in, and bytes per weight."""

    dtype: str
    activation_dtype: str
    bytes_per_weight: float


PLAIN = WeightFormat("bf16", "bf16", 2.0)


@dataclass(frozen=True, slots=True)
class Quantization:
    """Format of the four kinds of matrices of a decoder layer; embedding and LM head are never quantised here."""

    attention: WeightFormat = PLAIN
    dense_ffn: WeightFormat = PLAIN
    shared_experts: WeightFormat = PLAIN
    experts: WeightFormat = PLAIN
    kv_dtype: str = "bf16"


MODULE_WORDS = {
    "attention": re.compile(r"attn|attention"),
    "dense_ffn": re.compile(r"\bmlp\b(?!.*(expert|gate\b|router))|mlp\\?\.\(?(gate|up|down)(?=[_|])"),
    "shared_experts": re.compile(r"shared_expert"),
    "experts": re.compile(r"(?<!shared_)experts?\b"),
}
NOT_A_MATRIX = re.compile(r"norm|indexer|rotary|bias|sink|conv1d|in_proj_[ab]\b|shared_expert_gate|A_log|dt_")
LAYER = re.compile(r"layers\\?\.(\d{1,5})\b")


def quantization_of(config: Fields, layers: int) -> Quantization:
    """Formats named by `quantization_config` (absent: bf16). Raises UnsupportedModelError for a method unknown here."""
    raw = config.table("quantization_config")
    if raw is None:
        return Quantization()
    fields = Fields(raw, "quantization_config.")
    quantised, kept = _scheme(fields)
    plain = {kind: _is_kept(kept, words, layers) for kind, words in MODULE_WORDS.items()}
    formats = {kind: PLAIN if plain[kind] else quantised for kind in MODULE_WORDS}
    return Quantization(**formats, kv_dtype=_kv_dtype(fields))


def _scheme(fields: Fields) -> tuple[WeightFormat, tuple[str, ...]]:
    method = fields.text("quant_method", "").lower()
    kept = fields.texts("modules_to_not_convert", MAX_PATTERNS) + fields.texts("ignore", MAX_PATTERNS)
    kept += fields.texts("exclude_modules", MAX_PATTERNS)
    if method in ("fp8", "fbgemm_fp8"):
        block = fields.integers("weight_block_size")
        scale = 4.0 / (block[0] * block[1]) if len(block) == 2 else 0.0
        return WeightFormat("fp8", "fp8", 1.0 + scale), kept
    if method == "mxfp4":
        return WeightFormat("mxfp4", "bf16", NOMINAL_BYTES["mxfp4"]), kept
    if method in ("awq", "gptq"):
        bits = fields.integer("bits", 4, low=2, high=8) if "bits" in fields.raw else fields.integer("w_bit", 4, 2, 8)
        return _integer_weights(bits, fields.integer("group_size", 128, low=-1, high=1 << 20), "bf16"), kept
    if method == "modelopt" or "quant_algo" in fields.raw:
        return _modelopt(fields), kept
    if method == "compressed-tensors":
        return _compressed_tensors(fields), kept
    raise UnsupportedModelError(
        "quantization_config.quant_method",
        f"{method!r} is not known: use one of fp8, mxfp4, awq, gptq, modelopt (FP8, NVFP4), compressed-tensors",
    )


def _integer_weights(bits: int, group: int, activation: str, symmetric: bool = False) -> WeightFormat:
    if bits not in (4, 8):
        raise UnsupportedModelError("quantization_config.bits", f"{bits}-bit weights: only 4 and 8 are known")
    zero_point = 0.0 if symmetric else bits / 8
    scales = (2.0 + zero_point) / group if group > 0 else 0.0  # the scale of a group is fp16
    return WeightFormat(f"int{bits}", activation, bits / 8 + scales)


def _modelopt(fields: Fields) -> WeightFormat:
    algorithm = fields.text("quant_algo", "").upper()
    if algorithm.startswith("FP8"):
        return WeightFormat("fp8", "fp8", 1.0)
    if algorithm in ("NVFP4", "W4A4_NVFP4"):
        return WeightFormat("nvfp4", "nvfp4", NOMINAL_BYTES["nvfp4"])
    raise UnsupportedModelError("quantization_config.quant_algo", f"{algorithm!r} is not known: use FP8 or NVFP4")


def _compressed_tensors(fields: Fields) -> WeightFormat:
    groups = fields.table("config_groups") or {}
    if not groups:
        raise UnsupportedModelError("quantization_config.config_groups", "is empty: it names the weights' format")
    group = Fields.of(next(iter(groups.values())), "quantization_config.config_groups.*.")
    weights = Fields.of(group.raw.get("weights"), f"{group.prefix}weights.")
    activations = group.table("input_activations")
    bits, kind = weights.integer("num_bits", 8, low=1, high=64), weights.text("type", "int")
    size = weights.integer("group_size", 0, low=-1, high=1 << 20)
    if kind == "float" and bits == 8:
        return WeightFormat("fp8", "fp8" if activations else "bf16", 1.0)
    if kind == "float" and bits == 4:
        dtype = "mxfp4" if size == SCALED_BLOCK["mxfp4"] else "nvfp4"
        return WeightFormat(dtype, dtype if activations else "bf16", NOMINAL_BYTES[dtype])
    if kind == "int":
        if activations and bits == 8:
            return WeightFormat("int8", "int8", 1.0)
        return _integer_weights(bits, size, "bf16", weights.flag("symmetric", default=True))
    raise UnsupportedModelError(f"{weights.prefix}type", f"{bits}-bit {kind!r} weights are not known")


def _kv_dtype(fields: Fields) -> str:
    """FP8 caches are announced by modelopt (`kv_cache_quant_algo`) or by `kv_cache_scheme` of 8 bits."""
    scheme: Any = fields.raw.get("kv_cache_scheme")
    announced = fields.text("kv_cache_quant_algo", "").upper() == "FP8"
    return "fp8" if announced or (isinstance(scheme, dict) and scheme.get("num_bits") == 8) else "bf16"


def _is_kept(patterns: tuple[str, ...], words: re.Pattern[str], layers: int) -> bool:
    """Tell whether most layers keep this kind of matrix in bf16: a pattern without a layer number counts for all."""
    numbered: set[int] = set()
    for pattern in patterns:
        if len(pattern) > 512 or NOT_A_MATRIX.search(pattern) or not words.search(pattern):
            continue
        layer = LAYER.search(pattern)
        if layer is None:
            return True
        numbered.add(int(layer.group(1)))
    return 2 * len(numbered) > layers
