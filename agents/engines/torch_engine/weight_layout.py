"""How a checkpoint publishes its quantised matrices, read from `quantization_config` of its config.json."""

from dataclasses import dataclass
from typing import Any

from templates_lib.models.config_fields import Fields, UnsupportedModelError

METHODS = ("fp8", "fbgemm_fp8", "gptq", "awq", "modelopt", "compressed-tensors")
"""Values of `quant_method` that are read; of gpt-oss mxfp4 alone."""
NVFP4_GROUP = 16
"""Inputs that share a scale (NVIDIA: NVFP4)."""


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """Names, packing and scales of the tensors that stand for one matrix."""

    reader: str
    """One of `quantised_reader.READERS`."""
    pieces: tuple[str, ...]
    """Ends of the names of tensors that only quantised matrices have, beside `weight` or in its place."""
    bits: int = 8
    group: int = 0
    """Inputs that share a scale; 0: all, or as `block` says."""
    block: tuple[int, int] = (0, 0)
    """Outputs and inputs that share a scale."""
    zero_offset: int = 0
    """What is added to zero points as they are stored."""
    symmetric: bool = True
    """There are no zero points."""

    def has(self, names: Any, matrix: str) -> bool:
        """Tell whether a matrix (its name without `.weight`) is quantised: most checkpoints keep some as they were."""
        return any(f"{matrix}.{piece}" in names for piece in self.pieces)


def weight_layout(fields: Fields, family: str) -> WeightLayout | None:
    """Return None where weights are plain, and for gpt-oss, whose experts say by themselves that they are packed.

    Raises UnsupportedModelError with the key that is not known, and what would be."""
    raw = fields.table("quantization_config")
    if raw is None:
        return None
    inner = Fields(raw, "quantization_config.")
    method = inner.text("quant_method", "modelopt" if "quant_algo" in raw else "").lower()
    known = ("mxfp4",) if family == "gpt_oss" else METHODS
    if method not in known:
        raise UnsupportedModelError(
            "quantization_config.quant_method",
            f"{method!r} weights of {family} are not read: use {', '.join(known)}, or a checkpoint in bf16, fp16 or "
            "GGUF",
        )
    if method == "mxfp4":
        return None
    if inner.flag("lm_head", default=False):
        raise UnsupportedModelError("quantization_config.lm_head", "a quantised head is not read")
    return _OF_METHOD[method](inner)


def _fp8(fields: Fields) -> WeightLayout:
    block = fields.integers("weight_block_size")
    if (block and (len(block) != 2 or min(block) < 1)) or fields.text("fmt", "e4m3") not in ("e4m3", "float8_e4m3fn"):
        raise UnsupportedModelError(
            "quantization_config.weight_block_size",
            "FP8 is read in E4M3 with a scale for each block (name two sizes), output or matrix",
        )
    return _scaled((block[0], block[1]) if block else (0, 0))


def _scaled(block: tuple[int, int] = (0, 0)) -> WeightLayout:
    return WeightLayout("fp8", ("weight_scale_inv", "weight_scale"), block=block)


def _gptq(fields: Fields) -> WeightLayout:
    form = fields.text("checkpoint_format", "gptq")
    if form not in ("gptq", "gptq_v2"):
        raise UnsupportedModelError(
            "quantization_config.checkpoint_format", f"{form!r} is not read: use a checkpoint in gptq or gptq_v2"
        )
    offset = 1 if form == "gptq" else 0  # the first layout stores zero points less one
    group = _group(fields, "group_size")
    return WeightLayout("gptq", ("qweight", "qzeros", "scales"), _bits(fields, "bits"), group, zero_offset=offset)


def _awq(fields: Fields) -> WeightLayout:
    version = fields.text("version", "gemm").lower()
    if version != "gemm":
        raise UnsupportedModelError("quantization_config.version", f"AWQ for {version!r} is not read: use gemm")
    bits = _bits(fields, "w_bit" if "w_bit" in fields.raw else "bits")
    if bits != 4:
        raise UnsupportedModelError("quantization_config.bits", f"{bits}-bit AWQ is not known: use 4 bits")
    group = _group(fields, "q_group_size" if "q_group_size" in fields.raw else "group_size")
    return WeightLayout("awq", ("qweight", "qzeros", "scales"), bits, group)


def _modelopt(fields: Fields) -> WeightLayout:
    algorithm = fields.text("quant_algo", "").upper()
    if algorithm == "FP8":
        return _scaled()
    if algorithm not in ("NVFP4", "W4A4_NVFP4"):
        raise UnsupportedModelError("quantization_config.quant_algo", f"{algorithm!r} is not read: use FP8 or NVFP4")
    _check_nvfp4(fields, fields.integer("group_size", NVFP4_GROUP, low=1))
    return WeightLayout("nvfp4", ("weight_scale", "weight_scale_2"), 4, NVFP4_GROUP)


def _compressed(fields: Fields) -> WeightLayout:
    groups = [
        Fields.of(each, f"{fields.prefix}config_groups.*.") for each in (fields.table("config_groups") or {}).values()
    ]
    schemes = [each.table("weights") for each in groups]
    if not schemes or any(each != schemes[0] for each in schemes):
        raise UnsupportedModelError(
            "quantization_config.config_groups", "is read with one format of weights, not several"
        )
    if (fields.table("sparsity_config") or {}).get("format", "dense") != "dense":
        raise UnsupportedModelError(
            "quantization_config.sparsity_config", "sparse weights are not read: use dense ones"
        )
    weights = Fields.of(schemes[0], f"{groups[0].prefix}weights.")
    form = fields.text("format", groups[0].text("format", ""))
    bits, kind, strategy = _bits(weights, "num_bits"), weights.text("type", "int"), weights.text("strategy", "tensor")
    if kind == "float" and bits == 8 and form in ("float-quantized", "naive-quantized"):
        block = weights.integers("block_structure") if strategy == "block" else ()
        return _scaled((block[0], block[1]) if len(block) == 2 and min(block) > 0 else (0, 0))
    if kind == "float" and bits == 4 and form == "nvfp4-pack-quantized":
        _check_nvfp4(weights, weights.integer("group_size", NVFP4_GROUP, low=1))
        return WeightLayout("nvfp4-packed", ("weight_packed", "weight_scale", "weight_global_scale"), 4, NVFP4_GROUP)
    symmetric = weights.flag("symmetric", default=True)
    if kind == "int" and form == "pack-quantized":
        group = _group(weights, "group_size") if strategy == "group" else 0
        return WeightLayout("int-packed", ("weight_packed", "weight_scale"), bits, group, symmetric=symmetric)
    if kind == "int" and bits == 8 and form in ("int-quantized", "naive-quantized") and symmetric:
        return WeightLayout("int8", ("weight_scale",))
    raise UnsupportedModelError(
        "quantization_config.format",
        f"{form!r} with {bits}-bit {kind!r} weights is not read: use pack-quantized (int4, int8), int-quantized "
        "(int8), float-quantized (FP8) or nvfp4-pack-quantized",
    )


_OF_METHOD = {
    "fp8": _fp8,
    "fbgemm_fp8": lambda _: _scaled(),
    "gptq": _gptq,
    "awq": _awq,
    "modelopt": _modelopt,
    "compressed-tensors": _compressed,
}


def _bits(fields: Fields, key: str) -> int:
    bits = fields.integer(key, 4, low=1, high=64)
    if bits not in (4, 8):
        raise UnsupportedModelError(fields.prefix + key, f"{bits}-bit weights are not read: use 4 or 8 bits")
    return bits


def _group(fields: Fields, key: str) -> int:
    """Return 0 for one group of all inputs, which is published as -1."""
    group = fields.integer(key, 128, low=-1, high=1 << 20)
    return max(group, 0)


def _check_nvfp4(fields: Fields, group: int) -> None:
    if group != NVFP4_GROUP:
        why = f"NVFP4 has a scale for each {NVFP4_GROUP} inputs, not {group}"
        raise UnsupportedModelError(f"{fields.prefix}group_size", why)
