"""Whisper's encoder: sound to rows that its decoder attends to (Radford et al. 2022, section 2.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.components.unit import EncoderUnit
from agents.engines.components.unit_kinds import Samples
from agents.engines.torch_components.encoder_layer import EncoderLayer, FullAttention, all_rows
from agents.engines.torch_components.log_mel import HOP, SAMPLES_PER_S, log_mel, mel_filters
from agents.engines.torch_components.read_encoder import ReadEncoder
from agents.engines.torch_components.segments import Segments
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.norm import LayerNorm
from agents.engines.torch_engine.whisper_layers import QUERY_KEY_VALUE, GeluMlp, projections_without_key_bias
from templates_lib.models.config_fields import Fields, UnsupportedModelError

_EPSILON = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """Over three neighbouring frames."""

    weight: torch.Tensor
    """(outputs, inputs, 3)"""
    bias: torch.Tensor
    step: int

    def __call__(self, frames: torch.Tensor) -> torch.Tensor:
        """(n, inputs, frames) → (n, outputs, frames / step), through a GELU."""
        return functional.gelu(functional.conv1d(frames, self.weight, self.bias, stride=self.step, padding=1))


@dataclass(frozen=True, slots=True, eq=False)
class WhisperEncoder:
    filters: torch.Tensor
    first: Convolution
    second: Convolution
    positions: torch.Tensor
    """(frames, hidden)"""
    layers: tuple[EncoderLayer, ...]
    norm: LayerNorm

    def __call__(self, units: Sequence[EncoderUnit]) -> list[torch.Tensor]:
        """Sound → (frames, hidden) each; all have as many, those of silence too."""
        frames, device = len(self.positions), self.positions.device
        sound = torch.zeros(len(units), frames * 2 * HOP, device=device)
        for own, unit in zip(sound, units, strict=True):
            own[: len(unit.values)] = torch.from_numpy(unit.values)
        bands = log_mel(sound, self.filters).to(self.positions)
        rows = self.second(self.first(bands)).transpose(1, 2) + self.positions
        rows = rows.flatten(0, 1)
        segments = Segments([frames] * len(units), device)
        for layer in self.layers:
            rows = layer(rows, segments)
        return list(torch.split(self.norm(rows), frames))


def read_whisper_encoder(root: Fields, reader: LayerReader) -> ReadEncoder:
    if root.text("activation_function", "gelu") != "gelu":
        raise UnsupportedModelError("activation_function", "only gelu is known")
    hidden, ffn = root.integer("d_model", low=1), root.integer("encoder_ffn_dim", low=1)
    heads, bands = root.integer("encoder_attention_heads", low=1), root.integer("num_mel_bins", low=1, high=1024)
    frames = root.integer("max_source_positions", low=1, high=1 << 16)
    if hidden % heads:
        raise UnsupportedModelError("encoder_attention_heads", f"{heads} heads do not divide {hidden}")
    inside = reader.under("model.encoder.")
    layers = root.integer("encoder_layers", low=1, high=1024)
    encoder = WhisperEncoder(
        filters=torch.from_numpy(mel_filters(bands)).to(reader.device),
        first=convolution(inside.under("conv1."), bands, hidden, 1),
        second=convolution(inside.under("conv2."), hidden, hidden, 2),
        positions=inside.tensor("embed_positions.weight", (frames, hidden)),
        layers=tuple(whisper_encoder_layer(inside.under(f"layers.{i}."), hidden, heads, ffn) for i in range(layers)),
        norm=inside.layer_norm("layer_norm", hidden, _EPSILON),
    )
    takes = Samples(SAMPLES_PER_S, frames * 2 * HOP, frames)
    return ReadEncoder(takes, hidden, encoder, hidden, ffn)


def convolution(reader: LayerReader, inputs: int, outputs: int, step: int) -> Convolution:
    weight = reader.tensor("weight", (outputs, inputs, 3))
    return Convolution(weight, reader.tensor("bias", (outputs,)), step)


def whisper_encoder_layer(reader: LayerReader, hidden: int, heads: int, ffn: int) -> EncoderLayer:
    own = reader.under("self_attn.")
    attention = FullAttention(
        query_key_value=projections_without_key_bias(own, QUERY_KEY_VALUE, hidden),
        output=own.out_of("out_proj", hidden, hidden, bias=True),
        heads=heads,
    )
    return EncoderLayer(
        attention_norm=reader.layer_norm("self_attn_layer_norm", hidden, _EPSILON),
        attention=attention,
        feed_forward_norm=reader.layer_norm("final_layer_norm", hidden, _EPSILON),
        feed_forward=GeluMlp(
            reader.into(("fc1",), all_rows(ffn), hidden, bias=True), reader.out_of("fc2", hidden, ffn, bias=True)
        ),
    )
