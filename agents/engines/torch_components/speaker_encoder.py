"""Encoder of a speaker's voice: ECAPA-TDNN (Desplanques et al. 2020), mel frames of any number to one row."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_engine.layer_reader import LayerReader
from templates_lib.models.config_fields import Fields, UnsupportedModelError

_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class MirroredConvolution:
    """Over neighbouring frames, which are mirrored at the ends; as many frames come out."""

    weight: torch.Tensor
    """(outputs, inputs, taps)"""
    bias: torch.Tensor
    apart: int
    """Frames from a tap to the next."""

    @property
    def reach(self) -> int:
        """Frames that are mirrored at the end."""
        aside = self.apart * (self.weight.shape[2] - 1)
        return aside - aside // 2

    def __call__(self, frames: torch.Tensor) -> torch.Tensor:
        """(1, inputs, frames) → (1, outputs, frames)"""
        aside = self.apart * (self.weight.shape[2] - 1)
        mirrored = functional.pad(frames, (aside // 2, aside - aside // 2), mode="reflect") if aside else frames
        return functional.conv1d(mirrored, self.weight, self.bias, dilation=self.apart)


@dataclass(frozen=True, slots=True, eq=False)
class VoiceBlock:
    """Convolutions over groups of channels, each group with what the one before made, then a weight for each channel
    (Gao et al. 2019, Res2Net; Hu et al. 2018, squeeze and excitation)."""

    into: MirroredConvolution
    groups: tuple[MirroredConvolution, ...]
    out: MirroredConvolution
    squeeze: MirroredConvolution
    excite: MirroredConvolution

    def __call__(self, frames: torch.Tensor) -> torch.Tensor:
        """(1, channels, frames) → the same shape"""
        first, *others = functional.relu(self.into(frames)).chunk(len(self.groups) + 1, dim=1)
        made = [first]
        for i, (group, convolution) in enumerate(zip(others, self.groups, strict=True)):
            made.append(functional.relu(convolution(group + made[-1] if i else group)))
        mixed = functional.relu(self.out(torch.cat(made, dim=1)))
        weights = self.excite(functional.relu(self.squeeze(mixed.mean(2, keepdim=True)))).sigmoid()
        return mixed * weights + frames


@dataclass(frozen=True, slots=True, eq=False)
class SpeakerEncoder:
    first: MirroredConvolution
    blocks: tuple[VoiceBlock, ...]
    mix: MirroredConvolution
    attend: MirroredConvolution
    score: MirroredConvolution
    output: MirroredConvolution

    @property
    def least_frames(self) -> int:
        """Frames that are needed to mirror them."""
        every = (self.first, self.mix, *(group for block in self.blocks for group in block.groups))
        return max(convolution.reach for convolution in every) + 1

    def __call__(self, mel: torch.Tensor) -> torch.Tensor:
        """(frames, bands) → (width,)"""
        frames, each = functional.relu(self.first(mel.T[None])), []
        for block in self.blocks:
            frames = block(frames)
            each.append(frames)
        frames = functional.relu(self.mix(torch.cat(each, dim=1)))
        mean, deviation = _statistics(frames, torch.full_like(frames[:1, :1], 1 / frames.shape[2]))
        context = torch.cat((frames, mean.expand_as(frames), deviation.expand_as(frames)), dim=1)
        weights = self.score(functional.relu(self.attend(context)).tanh()).softmax(dim=2)
        return self.output(torch.cat(_statistics(frames, weights), dim=1))[0, :, 0]


def _statistics(frames: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of (1, channels, frames) by weights that add up to one: (1, channels, 1) each."""
    mean = (weights * frames).sum(2, keepdim=True)
    variance = (weights * (frames - mean).square()).sum(2, keepdim=True)
    return mean, variance.clamp(min=_LEAST_VARIANCE).sqrt()


def read_speaker_encoder(fields: Fields, reader: LayerReader, bands: int) -> SpeakerEncoder:
    """By the config of the denoiser that it is a part of."""
    channels, sizes, apart = (fields.integers(f"enc_{key}") for key in ("channels", "kernel_sizes", "dilations"))
    groups = fields.integer("enc_res2net_scale", low=2, high=64)
    if not 3 <= len(channels) == len(sizes) == len(apart) or sum(channels[1:-1]) != channels[-1]:
        raise UnsupportedModelError(f"{fields.prefix}enc_channels", "the last of three or more is the sum of the inner")
    if len(set(channels[:-1])) != 1 or channels[0] % groups:
        raise UnsupportedModelError(f"{fields.prefix}enc_channels", f"inner ones are equal, in {groups} groups")
    inner, joined, attended = channels[0], channels[-1], fields.integer("enc_attention_channels", low=1)

    def read(name: str, outputs: int, inputs: int, taps: int = 1, dilation: int = 1) -> MirroredConvolution:
        weight = reader.tensor(f"{name}.weight", (outputs, inputs, taps))
        return MirroredConvolution(weight, reader.tensor(f"{name}.bias", (outputs,)), dilation)

    squeezed = fields.integer("enc_se_channels", low=1)
    blocks = tuple(
        _block(read, f"blocks.{i}.", inner, groups, squeezed, sizes[i], apart[i]) for i in range(1, len(channels) - 1)
    )
    return SpeakerEncoder(
        first=read("blocks.0.conv", inner, bands, sizes[0], apart[0]),
        blocks=blocks,
        mix=read("mfa.conv", joined, joined, sizes[-1], apart[-1]),
        attend=read("asp.tdnn.conv", attended, 3 * joined),
        score=read("asp.conv", joined, attended),
        output=read("fc", fields.integer("enc_dim", low=1), 2 * joined),
    )


def _block(
    read: Callable[..., MirroredConvolution],
    prefix: str,
    channels: int,
    groups: int,
    squeezed: int,
    taps: int,
    apart: int,
) -> VoiceBlock:
    part = channels // groups
    return VoiceBlock(
        into=read(f"{prefix}tdnn1.conv", channels, channels),
        groups=tuple(
            read(f"{prefix}res2net_block.blocks.{i}.conv", part, part, taps, apart) for i in range(groups - 1)
        ),
        out=read(f"{prefix}tdnn2.conv", channels, channels),
        squeeze=read(f"{prefix}se_block.conv1", squeezed, channels),
        excite=read(f"{prefix}se_block.conv2", channels, squeezed),
    )
