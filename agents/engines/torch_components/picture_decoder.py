"""Decoder of Qwen-Image's autoencoder (`autoencoder_kl_qwenimage.py` of diffusers, after Wan et al. 2025): latents to
pixels.

It is one of videos, whose convolutions see the two frames before. A picture is the first of its video, before which
there is nothing: of each kernel the last frame alone meets numbers, so that it is a convolution of pictures."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_components.picture_denoiser import Tensors
from templates_lib.executors.memory_need import decoded_values
from templates_lib.models.config_fields import Fields, UnsupportedModelError

Layer = Callable[[torch.Tensor], torch.Tensor]
"""(items, channels, height, width) → another one."""
_FRAMES = 3
_COLOURS = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Convolution:
    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(rows, self.weight, self.bias, padding=self.weight.shape[-1] // 2)


@dataclass(frozen=True, slots=True, eq=False)
class _Norm:
    """Channels of a place as a vector of length √channels."""

    gamma: torch.Tensor
    """(channels, 1, 1)"""

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        length: float = len(self.gamma) ** 0.5
        return functional.normalize(rows, dim=1) * (length * self.gamma)


@dataclass(frozen=True, slots=True, eq=False)
class _Residual:
    norms: tuple[_Norm, _Norm]
    convolutions: tuple[_Convolution, _Convolution]
    shortcut: _Convolution | None

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        kept = rows if self.shortcut is None else self.shortcut(rows)
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            rows = convolution(functional.silu(norm(rows)))
        return rows + kept


@dataclass(frozen=True, slots=True, eq=False)
class _Attention:
    """One head over all places of a picture."""

    norm: _Norm
    query_key_value: _Convolution
    output: _Convolution

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        flat = self.query_key_value(self.norm(rows)).flatten(2).transpose(1, 2)[:, None]
        query, key, value = flat.chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return rows + self.output(mixed[:, 0].transpose(1, 2).reshape(rows.shape))


@dataclass(frozen=True, slots=True, eq=False)
class _Doubled:
    """Twice as high and wide."""

    convolution: _Convolution

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return self.convolution(functional.interpolate(rows, scale_factor=2.0, mode="nearest-exact"))


@dataclass(frozen=True, slots=True, eq=False)
class PictureDecoder:
    layers: tuple[Layer, ...]
    mean: torch.Tensor
    """(channels, 1, 1) of latents, by which those that are denoised were normalised."""
    deviation: torch.Tensor
    times: int
    """Pixels of a side for each latent."""
    values_per_pixel: int
    """Numbers that it holds at once for each pixel of a picture, at most, without what attention keeps for itself."""

    @property
    def channels(self) -> int:
        return len(self.mean)

    def __call__(self, latents: torch.Tensor) -> torch.Tensor:
        """(items, channels, height, width) normalised → pixels from -1 to 1, (items, 3, height, width)."""
        rows = latents * self.deviation + self.mean
        for layer in self.layers:
            rows = layer(rows)
        return rows.clamp(-1.0, 1.0)


def read_picture_decoder(fields: Fields, tensors: Tensors) -> PictureDecoder:
    """`vae` of a pipeline. Raises UnsupportedModelError, and what `tensors` does."""
    base, channels = fields.integer("base_dim", low=2, high=1 << 16), fields.integer("z_dim", low=1, high=1 << 16)
    widths = [base * times for times in reversed(fields.integers("dim_mult"))]
    if not widths or min(widths) < 2 or len(widths) > 16:
        raise UnsupportedModelError(f"{fields.prefix}dim_mult", "is a list of whole numbers above 0")
    read = _Reader(tensors)
    layers: list[Layer] = [read.causal("post_quant_conv", channels, channels, 1)]
    layers.append(read.causal("decoder.conv_in", channels, widths[0]))
    middle = "decoder.mid_block"
    layers += [
        read.residual(f"{middle}.resnets.0", widths[0], widths[0]),
        read.attention(f"{middle}.attentions.0", widths[0]),
        read.residual(f"{middle}.resnets.1", widths[0], widths[0]),
    ]
    blocks, entering = fields.integer("num_res_blocks", low=1, high=64), widths[0]
    for number, width in enumerate(widths):
        for block in range(blocks + 1):
            layers.append(read.residual(f"decoder.up_blocks.{number}.resnets.{block}", entering, width))
            entering = width
        if number + 1 < len(widths):
            entering = width // 2
            place = f"decoder.up_blocks.{number}.upsamplers.0.resample.1"
            layers.append(_Doubled(read.flat(place, width, entering)))
    layers += [_Norm(tensors("decoder.norm_out.gamma", (entering, 1, 1, 1))[..., 0]), functional.silu]
    layers.append(read.causal("decoder.conv_out", entering, _COLOURS))
    mean, deviation = (_latents(fields, key, channels, read.like) for key in ("latents_mean", "latents_std"))
    return PictureDecoder(tuple(layers), mean, deviation, 2 ** (len(widths) - 1), decoded_values(widths, blocks))


def _latents(fields: Fields, key: str, channels: int, like: torch.Tensor) -> torch.Tensor:
    values = fields.raw.get(key)
    if not isinstance(values, list) or len(values) != channels or not all(type(v) in (int, float) for v in values):
        raise UnsupportedModelError(f"{fields.prefix}{key}", f"is a list of {channels} numbers, one a channel")
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None, None]


class _Reader:
    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self.like = torch.empty(0)

    def causal(self, name: str, reads: int, gives: int, side: int = 3) -> _Convolution:
        frames = _FRAMES if side > 1 else 1
        weight = self._tensors(f"{name}.weight", (gives, reads, frames, side, side))
        self.like = weight
        return _Convolution(weight[:, :, -1], self._tensors(f"{name}.bias", (gives,)))

    def flat(self, name: str, reads: int, gives: int, side: int = 3) -> _Convolution:
        return _Convolution(
            self._tensors(f"{name}.weight", (gives, reads, side, side)), self._tensors(f"{name}.bias", (gives,))
        )

    def residual(self, name: str, reads: int, gives: int) -> _Residual:
        norms = [
            self._tensors(f"{name}.norm{n}.gamma", (width, 1, 1, 1))[..., 0] for n, width in ((1, reads), (2, gives))
        ]
        convolutions = self.causal(f"{name}.conv1", reads, gives), self.causal(f"{name}.conv2", gives, gives)
        shortcut = None if reads == gives else self.causal(f"{name}.conv_shortcut", reads, gives, 1)
        return _Residual((_Norm(norms[0]), _Norm(norms[1])), convolutions, shortcut)

    def attention(self, name: str, width: int) -> _Attention:
        norm = _Norm(self._tensors(f"{name}.norm.gamma", (width, 1, 1)))
        return _Attention(
            norm, self.flat(f"{name}.to_qkv", width, 3 * width, 1), self.flat(f"{name}.proj", width, width, 1)
        )
