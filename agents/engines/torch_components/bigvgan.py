"""BigVGAN (Lee et al. 2023): mel frames to sound, by convolutions that widen them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_engine.layer_reader import LayerReader
from templates_lib.models.config_fields import Fields, UnsupportedModelError

_RATIO, _TAPS = 2, 12
"""Activations are computed on twice as many samples, so that what they add above is filtered out again."""
_LEAST_DB, _REFERENCE_DB = -115.0, 20.0
_NO_DIVISION_BY_ZERO = 1e-9


def low_pass(cutoff: float, half_width: float, taps: int) -> torch.Tensor:
    """(taps,) of a sinc in Kaiser's window (Kaiser 1974); they add up to one. `taps`: even."""
    attenuation = 2.285 * (taps // 2 - 1) * math.pi * 4 * half_width + 7.95
    beta = 0.0
    if attenuation > 50.0:
        beta = 0.1102 * (attenuation - 8.7)
    elif attenuation >= 21.0:
        beta = 0.5842 * (attenuation - 21) ** 0.4 + 0.07886 * (attenuation - 21.0)
    window = torch.kaiser_window(taps, beta=beta, periodic=False, dtype=torch.float32)
    at = torch.arange(-(taps // 2), taps // 2) + 0.5
    kernel = 2 * cutoff * window * torch.sinc(2 * cutoff * at)
    return kernel / kernel.sum()


@dataclass(frozen=True, slots=True, eq=False)
class Snake:
    """x + sin²(αx) / β for each channel (Ziyin et al. 2020), on twice as many samples."""

    alpha: torch.Tensor
    """(channels, 1)"""
    beta: torch.Tensor
    kernel: torch.Tensor
    """(channels, 1, taps)"""

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(channels, samples) → the same shape"""
        pad = _TAPS // _RATIO - 1
        wide = functional.pad(rows[None], (pad, pad), mode="replicate")
        wide = _RATIO * functional.conv_transpose1d(wide, self.kernel, stride=_RATIO, groups=len(rows))
        cut = pad * _RATIO + (_TAPS - _RATIO) // 2
        wide = wide[..., cut : -(pad * _RATIO + (_TAPS - _RATIO + 1) // 2)]
        wide = wide + torch.sin(wide * self.alpha).square() / (self.beta + _NO_DIVISION_BY_ZERO)
        wide = functional.pad(wide, (_TAPS // 2 - 1, _TAPS // 2), mode="replicate")
        return functional.conv1d(wide, self.kernel, stride=_RATIO, groups=len(rows))[0]


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """A convolution that gives as many samples as it takes."""

    weight: torch.Tensor
    """(outputs, inputs, taps)"""
    bias: torch.Tensor | None
    apart: int = 1

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(inputs, samples) → (outputs, samples)"""
        aside = self.apart * (self.weight.shape[2] - 1) // 2
        return functional.conv1d(rows[None], self.weight, self.bias, padding=aside, dilation=self.apart)[0]


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """x + filter(snake(filter(snake(x)))), for each of several distances."""

    steps: tuple[tuple[Snake, Filter, Snake, Filter], ...]

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(channels, samples) → the same shape"""
        for first, wide, second, narrow in self.steps:
            rows = rows + narrow(second(wide(first(rows))))
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Half as many channels of `rate` times as many samples, then the mean of what residual blocks of other taps
    make of them."""

    weight: torch.Tensor
    """(inputs, outputs, taps)"""
    bias: torch.Tensor
    rate: int
    residuals: tuple[Residual, ...]

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(inputs, samples) → (outputs, samples × rate)"""
        cut = (self.weight.shape[2] - self.rate) // 2
        wide = functional.conv_transpose1d(rows[None], self.weight, self.bias, stride=self.rate, padding=cut)[0]
        total = self.residuals[0](wide)
        for residual in self.residuals[1:]:
            total = total + residual(wide)
        return total / len(self.residuals)


@dataclass(frozen=True, slots=True, eq=False)
class BigVgan:
    first: Filter
    stages: tuple[Stage, ...]
    activation: Snake
    last: Filter

    @property
    def samples(self) -> int:
        """Of a mel frame."""
        return math.prod(stage.rate for stage in self.stages)

    def __call__(self, mel: torch.Tensor) -> torch.Tensor:
        """(frames, bands) → (samples,) from -1 to 1. Each sound by itself: what lies behind its end would be heard."""
        rows = self.first(_levels(mel.T))
        for stage in self.stages:
            rows = stage(rows)
        return self.last(self.activation(rows))[0].clamp(-1.0, 1.0)


def _levels(mel: torch.Tensor) -> torch.Tensor:
    """Natural logarithms of amplitudes → decibels, from -1 to 1."""
    quietest = math.exp(_LEAST_DB / 20.0 * math.log(10))
    decibels = 20 * torch.log10(mel.exp().clamp(min=quietest)) - _REFERENCE_DB
    return (2 * (decibels - _LEAST_DB) / -_LEAST_DB - 1).clamp(-1.0, 1.0)


def read_bigvgan(fields: Fields, reader: LayerReader, bands: int) -> BigVgan:
    """By `bigvgan_config`."""
    rates, kernels = fields.integers("upsample_rates", 32), fields.integers("upsample_kernel_sizes", 32)
    sizes, channels = fields.integers("resblock_kernel_sizes", 32), fields.integer("upsample_initial_channel", low=2)
    dilations = _dilations(fields)
    if (
        not rates
        or len(rates) != len(kernels)
        or not sizes
        or len(dilations) != len(sizes)
        or any(size % 2 == 0 for size in sizes)
    ):
        raise UnsupportedModelError(
            f"{fields.prefix}resblock_dilation_sizes", "three for each odd size, and as many kernels as rates"
        )
    if any(kernel < rate or (kernel - rate) % 2 for kernel, rate in zip(kernels, rates, strict=True)):
        raise UnsupportedModelError(f"{fields.prefix}upsample_kernel_sizes", "each is its rate and an even number more")
    if channels % (1 << len(rates)):
        raise UnsupportedModelError(f"{fields.prefix}upsample_initial_channel", f"is not halved {len(rates)} times")
    kernel = low_pass(0.5 / _RATIO, 0.6 / _RATIO, _TAPS).to(reader.like)

    def snake(name: str, count: int) -> Snake:
        alpha, beta = (reader.tensor(f"{name}.act.{part}", (count,)).exp()[:, None] for part in ("alpha", "beta"))
        return Snake(alpha, beta, kernel.expand(count, 1, -1))

    def read_filter(name: str, outputs: int, inputs: int, taps: int, apart: int = 1, *, bias: bool = True) -> Filter:
        weight = reader.tensor(f"{name}.weight", (outputs, inputs, taps))
        return Filter(weight, reader.tensor(f"{name}.bias", (outputs,)) if bias else None, apart)

    first, stages = read_filter("conv_pre", channels, bands, 7), []
    for i, (rate, taps) in enumerate(zip(rates, kernels, strict=True)):
        half = channels // 2
        residuals = tuple(
            _residual(snake, read_filter, f"resblocks.{i * len(sizes) + j}.", half, size, dilations[j])
            for j, size in enumerate(sizes)
        )
        weight = reader.tensor(f"ups.{i}.0.weight", (channels, half, taps))
        stages.append(Stage(weight, reader.tensor(f"ups.{i}.0.bias", (half,)), rate, residuals))
        channels = half
    last = read_filter("conv_post", 1, channels, 7, bias=False)
    return BigVgan(first, tuple(stages), snake("activation_post", channels), last)


def _dilations(fields: Fields) -> list[tuple[int, ...]]:
    """Three distances for each size of a residual block's filters."""
    key, found = "resblock_dilation_sizes", fields.raw.get("resblock_dilation_sizes")
    if not isinstance(found, list) or len(found) > 32:
        raise UnsupportedModelError(fields.prefix + key, "must be a list")
    every = [Fields({key: each}, fields.prefix).integers(key, 3) for each in found]
    if any(len(each) != 3 or not min(each) for each in every):
        raise UnsupportedModelError(fields.prefix + key, "must be three distances for each size")
    return every


def _residual(
    snake: Callable[[str, int], Snake],
    read_filter: Callable[..., Filter],
    prefix: str,
    channels: int,
    taps: int,
    apart: tuple[int, ...],
) -> Residual:
    return Residual(
        tuple(
            (
                snake(f"{prefix}activations.{2 * i}", channels),
                read_filter(f"{prefix}convs1.{i}", channels, channels, taps, each),
                snake(f"{prefix}activations.{2 * i + 1}", channels),
                read_filter(f"{prefix}convs2.{i}", channels, channels, taps),
            )
            for i, each in enumerate(apart)
        )
    )
