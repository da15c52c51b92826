"""Diffusion transformer of Qwen-Image (Wu et al. 2025, section 2; `transformer_qwenimage.py` of diffusers): rows of
latents and rows of the text, each with weights of their own, attend to each other (Esser et al. 2024).

All is plain tensors, so that what trains one computes as what serves it."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from templates_lib.models.config_fields import Fields, UnsupportedModelError

Tensors = Callable[[str, tuple[int, ...]], torch.Tensor]
"""Name and shape → a tensor of the model."""
_EPSILON = 1e-6
_TIME_WIDTH = 256
_TIME_SCALE = 1000.0
_SLOWEST = 10_000.0
"""Longest wave of times and positions, in radians' inverse."""


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return functional.linear(rows, self.weight, self.bias)


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    """What a block does to rows of latents, or of the text."""

    modulation: Affine
    """Six widths: shift, scale and gate of either part."""
    query: Affine
    key: Affine
    value: Affine
    query_norm: torch.Tensor
    key_norm: torch.Tensor
    output: Affine
    into: Affine
    out: Affine

    def heads(self, rows: torch.Tensor, heads: int, turns: torch.Tensor) -> list[torch.Tensor]:
        """(items, rows, width) → queries, keys and values, (items, heads, rows, head)."""
        shape = (*rows.shape[:2], heads, -1)
        query, key, value = (of(rows).reshape(shape) for of in (self.query, self.key, self.value))
        query, key = (
            _turned(functional.rms_norm(each, each.shape[-1:], norm, _EPSILON), turns)
            for each, norm in ((query, self.query_norm), (key, self.key_norm))
        )
        return [each.transpose(1, 2) for each in (query, key, value)]

    def fed(self, rows: torch.Tensor) -> torch.Tensor:
        return self.out(functional.gelu(self.into(rows), approximate="tanh"))


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    image: _Stream
    text: _Stream
    heads: int

    def __call__(
        self,
        rows: tuple[torch.Tensor, torch.Tensor],
        time: torch.Tensor,
        turns: tuple[torch.Tensor, torch.Tensor],
        is_seen: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`rows`: text and image, (items, n, width); `time`: (items, width)."""
        streams = self.text, self.image
        parts = [each.modulation(functional.silu(time))[:, None].chunk(6, dim=-1) for each in streams]
        ready = [
            stream.heads(_modulated(own, part[0], part[1]), self.heads, turn)
            for stream, own, part, turn in zip(streams, rows, parts, turns, strict=True)
        ]
        query, key, value = (torch.cat(each, dim=2) for each in zip(*ready, strict=True))
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=is_seen)
        mixed = mixed.transpose(1, 2).flatten(2)
        found = []
        new_rows = torch.split(mixed, [each.shape[1] for each in rows], dim=1)
        for stream, own, part, new in zip(streams, rows, parts, new_rows, strict=True):
            held = own + part[2] * stream.output(new)
            found.append(held + part[5] * stream.fed(_modulated(held, part[3], part[4])))
        return found[0], found[1]


@dataclass(frozen=True, slots=True, eq=False)
class PictureDenoiser:
    from_latents: Affine
    text_norm: torch.Tensor
    from_text: Affine
    time: tuple[Affine, Affine]
    blocks: tuple[_Block, ...]
    modulation: Affine
    """Two widths: scale and shift."""
    output: Affine
    axes: tuple[int, int, int]
    """Of a head: parts that are turned by frame, row and column."""
    patch: int
    """Latents of a side that are a row."""

    def __call__(
        self, latents: torch.Tensor, sigma: torch.Tensor, text: torch.Tensor, is_text: torch.Tensor, columns: int
    ) -> torch.Tensor:
        """Velocity of latents from noise, of the same shape: (items, rows, channels). `sigma`: (items,) share of noise,
        0 to 1; `text`: (items, n, width) with `is_text` (items, n) where there is some; `columns`: of rows side by
        side."""
        image = self.from_latents(latents)
        said = self.from_text(functional.rms_norm(text, text.shape[-1:], self.text_norm, _EPSILON))
        first, second = self.time
        time = second(functional.silu(first(_waves(sigma).to(image.dtype))))
        turns = _turns(self.axes, image.shape[1] // columns, columns, said.shape[1], image.device)
        is_seen = torch.cat((is_text, is_text.new_ones(image.shape[:2])), dim=1)[:, None, None]
        rows = said, image
        for block in self.blocks:
            rows = block(rows, time, turns, is_seen)
        scale, shift = self.modulation(functional.silu(time))[:, None].chunk(2, dim=-1)
        return self.output(_modulated(rows[1], shift, scale))


def read_picture_denoiser(fields: Fields, tensors: Tensors) -> PictureDenoiser:
    """`transformer` of a pipeline. Raises UnsupportedModelError, and what `tensors` does."""
    heads = fields.integer("num_attention_heads", low=1, high=4096)
    head = fields.integer("attention_head_dim", low=2, high=4096)
    width, text = heads * head, fields.integer("joint_attention_dim", low=1)
    axes = fields.integers("axes_dims_rope") or (16, 56, 56)
    if len(axes) != 3 or sum(axes) != head or any(axis % 2 for axis in axes):
        raise UnsupportedModelError(f"{fields.prefix}axes_dims_rope", f"is not three even parts of a head of {head}")
    patch, channels = fields.integer("patch_size", low=1, high=16), fields.integer("in_channels", low=1)
    given = patch * patch * fields.integer("out_channels", low=1)

    def affine(name: str, columns: int, depth: int) -> Affine:
        return Affine(tensors(f"{name}.weight", (columns, depth)), tensors(f"{name}.bias", (columns,)))

    def stream(block: str, kind: str, names: tuple[str, ...]) -> _Stream:
        query, key, value, query_norm, key_norm, output = (f"{block}.attn.{name}" for name in names)
        return _Stream(
            affine(f"{block}.{kind}_mod.1", 6 * width, width),
            affine(query, width, width),
            affine(key, width, width),
            affine(value, width, width),
            tensors(f"{query_norm}.weight", (head,)),
            tensors(f"{key_norm}.weight", (head,)),
            affine(output, width, width),
            affine(f"{block}.{kind}_mlp.net.0.proj", 4 * width, width),
            affine(f"{block}.{kind}_mlp.net.2", width, 4 * width),
        )

    image_names = ("to_q", "to_k", "to_v", "norm_q", "norm_k", "to_out.0")
    text_names = ("add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k", "to_add_out")
    blocks = tuple(
        _Block(stream(block, "img", image_names), stream(block, "txt", text_names), heads)
        for block in (f"transformer_blocks.{n}" for n in range(fields.integer("num_layers", low=1, high=1024)))
    )
    times = [
        affine(f"time_text_embed.timestep_embedder.linear_{n}", width, depth)
        for n, depth in ((1, _TIME_WIDTH), (2, width))
    ]
    return PictureDenoiser(
        affine("img_in", width, channels),
        tensors("txt_norm.weight", (text,)),
        affine("txt_in", width, text),
        (times[0], times[1]),
        blocks,
        affine("norm_out.linear", 2 * width, width),
        affine("proj_out", given, width),
        (axes[0], axes[1], axes[2]),
        patch,
    )


def _modulated(rows: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(rows, rows.shape[-1:], eps=_EPSILON) * (1 + scale) + shift


def _waves(sigma: torch.Tensor) -> torch.Tensor:
    """(items,) → (items, _TIME_WIDTH) cosines and sines, fp32."""
    half = _TIME_WIDTH // 2
    speeds = torch.exp(torch.arange(half, device=sigma.device, dtype=torch.float32) * (-math.log(_SLOWEST) / half))
    angles = _TIME_SCALE * (sigma[:, None].float() * speeds)
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


def _turns(
    axes: tuple[int, int, int], rows: int, columns: int, words: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Complex turns of words and of places: these count from the middle of the picture, words on from its edge."""

    def of(places: torch.Tensor, axis: int) -> torch.Tensor:
        speeds = _SLOWEST ** (-torch.arange(0, axis, 2, dtype=torch.float32, device=device) / axis)
        angles = places.float()[..., None] * speeds
        return torch.polar(torch.ones_like(angles), angles)

    down = torch.arange(rows, device=device) - (rows - rows // 2)
    across = torch.arange(columns, device=device) - (columns - columns // 2)
    places = torch.stack(torch.meshgrid(down, across, indexing="ij")).flatten(1)
    image = torch.cat(
        (of(torch.zeros_like(places[0]), axes[0]), of(places[0], axes[1]), of(places[1], axes[2])), dim=-1
    )
    count = max(rows // 2, columns // 2) + torch.arange(words, device=device)
    return torch.cat([of(count, axis) for axis in axes], dim=-1), image


def _turned(heads: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """(items, rows, heads, head) by (rows, head / 2): neighbours are a complex number."""
    pairs = torch.view_as_complex(heads.float().reshape(*heads.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[:, None]).flatten(3).type_as(heads)
