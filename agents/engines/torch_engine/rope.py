"""Rotary position embedding, with the scalings that published models use."""

import math
from dataclasses import dataclass, replace
from functools import cache

import torch

from templates_lib.models.config_fields import Fields, UnsupportedModelError

KINDS = ("default", "linear", "llama3", "yarn", "longrope", "frequency_factors")


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotation of dimension pairs (i, i + rotated / 2) of queries and keys by position × frequency. Dimensions from
    `rotated` on are kept as they are."""

    inverse_frequencies: tuple[float, ...]
    """(rotated / 2,) radians a token."""
    attention_factor: float
    """Multiplies cosine and sine (YaRN's temperature); 1 otherwise."""
    axis_of: tuple[int, ...] = ()
    """(rotated / 2,): which of a token's three positions turns each pair, where it has three (Wang et al. 2024)."""

    def tables(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(tokens,) positions, or (tokens, 3) with `axis_of` → cosine and sine, each (tokens, 1, rotated / 2) fp32,
        broadcast over heads. One position is short for three that are equal."""
        at = positions[:, None] if positions.dim() == 1 else positions[:, list(self.axis_of)]
        angles = at.to(torch.float32)[:, None, :] * _on_device(self.inverse_frequencies, positions.device)
        return angles.cos() * self.attention_factor, angles.sin() * self.attention_factor


@cache
def _on_device(frequencies: tuple[float, ...], device: torch.device) -> torch.Tensor:
    """Sent there once: a step that is captured as a graph cannot read what the processor holds."""
    return torch.tensor(frequencies, dtype=torch.float32, device=device)


def rotate(heads: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """(tokens, heads, head_dim), rotated."""
    half = cosine.shape[-1]
    low, high, kept = heads.split_with_sizes((half, half, heads.shape[-1] - 2 * half), dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine, kept), dim=-1)


def no_rope(head_dim: int) -> Rope:
    """Nothing turns: for models that add learned positions to their embeddings."""
    return Rope((0.0,) * (head_dim // 2), 1.0)


def rope_of(
    fields: Fields, head_dim: int, context_tokens: int, rotates_parts: bool = False, has_axes: bool = False
) -> Rope:
    """Reads `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before). `rotates_parts`: the family
    may leave the last dimensions of a head as they are (`partial_rotary_factor`); `has_axes`: its tokens have three
    positions, each of which turns some pairs (`mrope_section`).

    Raises UnsupportedModelError for a scaling not in KINDS.
    """
    scaling = Fields(
        (fields.table("rope_parameters") or {}) | (fields.table("rope_scaling") or {}), f"{fields.prefix}rope_scaling."
    )
    theta = _number(scaling, "rope_theta", _number(fields, "rope_theta", 10000.0))
    partial = _number(scaling, "partial_rotary_factor", _number(fields, "partial_rotary_factor", 1.0))
    rotated = int(head_dim * partial)
    if partial != 1.0 and not (rotates_parts and 0 < rotated < head_dim and rotated % 2 == 0):
        raise UnsupportedModelError("partial_rotary_factor", f"rotating {partial} of a head is not known")
    kind = scaling.text("rope_type", scaling.text("type", "default"))
    plain = theta ** -(torch.arange(0, rotated, 2, dtype=torch.int64).to(torch.float32) / rotated)
    if kind == "default" or has_axes:
        return replace(_rope(plain), axis_of=_axes(scaling, kind, rotated // 2) if has_axes else ())
    if kind == "linear":
        return _rope(plain / _number(scaling, "factor"))
    if kind == "llama3":
        return _rope(_llama3(plain, scaling))
    if kind == "yarn":
        return _yarn(plain, scaling, theta, rotated, context_tokens)
    if kind == "longrope":
        original = _number(fields, "original_max_position_embeddings", _original(scaling, context_tokens))
        return _longrope(plain, scaling, original, context_tokens)
    if kind == "frequency_factors":
        return _rope(plain / torch.tensor(scaling.raw["factors"], dtype=torch.float32))
    raise UnsupportedModelError(f"{scaling.prefix}rope_type", f"{kind!r} is not known: {', '.join(KINDS)}")


def _axes(scaling: Fields, kind: str, pairs: int) -> tuple[int, ...]:
    """Consecutive pairs for frames, rows and columns, as many of each as `mrope_section` says."""
    if kind not in ("default", "mrope"):
        raise UnsupportedModelError(f"{scaling.prefix}rope_type", f"{kind!r} is not known with three positions")
    sections = scaling.integers("mrope_section", limit=3)
    if len(sections) != 3 or sum(sections) != pairs or scaling.flag("mrope_interleaved", default=False):
        raise UnsupportedModelError(f"{scaling.prefix}mrope_section", f"must be three numbers that add up to {pairs}")
    return tuple(axis for axis, count in enumerate(sections) for _ in range(count))


def _rope(frequencies: torch.Tensor, attention_factor: float = 1.0) -> Rope:
    return Rope(tuple(frequencies.tolist()), attention_factor)


def _llama3(plain: torch.Tensor, scaling: Fields) -> torch.Tensor:
    """Llama 3.1 model card: long wavelengths are stretched by `factor`, short ones kept, between them blended."""
    factor = _number(scaling, "factor")
    low, high = _number(scaling, "low_freq_factor"), _number(scaling, "high_freq_factor")
    original = _number(scaling, "original_max_position_embeddings")
    turns = original * plain / (2 * math.pi)
    blend = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - blend) * plain / factor + blend * plain


def _yarn(plain: torch.Tensor, scaling: Fields, theta: float, head_dim: int, context_tokens: int) -> Rope:
    """YaRN (Peng et al. 2023, sections 3.2-3.4): dimensions that turn often are kept, slow ones interpolated, with a
    ramp between, and attention is made warmer or cooler."""
    original = _original(scaling, context_tokens)
    factor = _number(scaling, "factor", context_tokens / original)

    def dimension(turns: float) -> float:
        return head_dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first, last = dimension(_number(scaling, "beta_fast", 32.0)), dimension(_number(scaling, "beta_slow", 1.0))
    if scaling.flag("truncate", default=True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_dim - 1)
    ramp = (torch.arange(head_dim // 2, dtype=torch.float32) - first) / (max(last - first, 0.001))
    interpolated = ramp.clamp(0, 1)
    frequencies = plain / factor * interpolated + plain * (1 - interpolated)
    return _rope(frequencies, _yarn_temperature(scaling, factor))


def _yarn_temperature(scaling: Fields, factor: float) -> float:
    def magnitude(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    given = scaling.raw.get("attention_factor")
    if given is not None:
        return _number(scaling, "attention_factor")
    if scaling.raw.get("mscale") and scaling.raw.get("mscale_all_dim"):
        return magnitude(_number(scaling, "mscale")) / magnitude(_number(scaling, "mscale_all_dim"))
    return magnitude(1.0)


def _original(scaling: Fields, context_tokens: int) -> float:
    return _number(scaling, "original_max_position_embeddings", float(context_tokens))


def _longrope(plain: torch.Tensor, scaling: Fields, original: float, context_tokens: int) -> Rope:
    """LongRoPE (Ding et al. 2024): each frequency is divided by a factor of its own, out of one list up to the context
    that the model was first trained with, out of another beyond.

    transformers changes lists when a text passes that length, and computes it anew; cached keys cannot be. So the list
    is chosen by the model's context, for all texts, as vLLM does."""
    is_long = context_tokens > original
    factors = scaling.raw.get("long_factor" if is_long else "short_factor")
    if not isinstance(factors, list) or len(factors) != len(plain):
        key = f"{scaling.prefix}{'long' if is_long else 'short'}_factor"
        raise UnsupportedModelError(key, f"must be a list of {len(plain)} numbers")
    factor = _number(scaling, "factor", context_tokens / original)
    warmer = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return _rope(plain / torch.tensor(factors, dtype=torch.float32), _number(scaling, "attention_factor", warmer))


def _number(fields: Fields, key: str, default: float | None = None) -> float:
    value = fields.raw.get(key)
    if value is None:
        value = default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise UnsupportedModelError(fields.prefix + key, f"must be a positive number, is {value!r:.40}")
    return float(value)
