"""Audio encoder of Qwen2.5-Omni (Xu et al. 2025, section 2.2): sound to rows of its thinker, 25 a second."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from agents.engines.components.unit import EncoderUnit
from agents.engines.components.unit_kinds import Clips
from agents.engines.torch_components.encoder_layer import EncoderLayer
from agents.engines.torch_components.log_mel import HOP, SAMPLES_PER_S, log_mel, mel_filters
from agents.engines.torch_components.read_encoder import ReadEncoder
from agents.engines.torch_components.segments import Segments
from agents.engines.torch_components.whisper_encoder import Convolution, convolution, whisper_encoder_layer
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.linear import Linear
from agents.engines.torch_engine.norm import LayerNorm
from templates_lib.models.config_fields import Fields, UnsupportedModelError

MOST_SECONDS = 300
"""Of a clip, as its processor cuts them."""
_EPSILON = 1e-5
_SILENT_HOPS = 3
"""Behind a clip: so many frames may hear its end, one of which may be the loudest."""


@dataclass(frozen=True, slots=True, eq=False)
class OmniHearing:
    takes: Clips
    filters: torch.Tensor
    first: Convolution
    second: Convolution
    positions: torch.Tensor
    """(frames of a window / 2, hidden)"""
    layers: tuple[EncoderLayer, ...]
    norm: LayerNorm
    output: Linear
    window: int
    """Frames that see each other."""

    def __call__(self, units: Sequence[EncoderUnit]) -> list[torch.Tensor]:
        """Sound → (rows, width) each."""
        windows = [part for unit in units for part in torch.split(self._bands(unit), self.window)]
        frames = torch.tensor([len(part) for part in windows])
        lengths = ((frames + 1) // 2).tolist()
        rows = self._rows(windows, frames.to(self.positions.device))
        rows = torch.cat([own[:length] for own, length in zip(rows, lengths, strict=True)])
        segments = Segments(lengths, rows.device)
        for layer in self.layers:
            rows = layer(rows, segments)
        of_units = torch.split(rows, [self.takes.rows_in(unit) for unit in units])
        pairs = [own[: len(own) // 2 * 2].view(len(own) // 2, 2, -1).mean(1) for own in of_units]
        made = self.output(self.norm(torch.cat(pairs)))
        return list(torch.split(made, [len(own) for own in pairs]))

    def _bands(self, unit: EncoderUnit) -> torch.Tensor:
        """(frames, bands); the last frame is filled up with silence."""
        frames, device = self.takes.frames(unit), self.positions.device
        sound = torch.zeros(1, (frames + _SILENT_HOPS) * HOP, device=device)
        sound[0, : len(unit.values)] = torch.from_numpy(unit.values)
        return log_mel(sound, self.filters)[0, :, :frames].T.to(self.positions)

    def _rows(self, windows: Sequence[torch.Tensor], frames: torch.Tensor) -> torch.Tensor:
        """Windows of bands → (windows, rows, hidden). What a shorter one is filled up with is not heard: as zeros it is
        what a convolution puts at an end."""
        bands = pad_sequence(list(windows), batch_first=True).transpose(1, 2)
        is_there = torch.arange(bands.shape[2], device=bands.device) < frames[:, None]
        rows = self.second(self.first(bands) * is_there[:, None]).transpose(1, 2)
        return rows + self.positions[: rows.shape[1]]


def thinker_of(root: Fields, reader: LayerReader) -> tuple[Fields, LayerReader]:
    """The part of Qwen2.5-Omni that reads and answers in text; of other models, the whole."""
    if root.table("thinker_config") is None:
        return root, reader
    return root.part("thinker_config"), reader.under("thinker.")


def read_omni_hearing(root: Fields, reader: LayerReader) -> ReadEncoder:
    """`thinker.audio_tower.` of the checkpoint."""
    root, reader = thinker_of(root, reader)
    fields, inside = root.part("audio_config"), reader.under("audio_tower.")
    if fields.text("activation_function", "gelu") != "gelu":
        raise UnsupportedModelError(f"{fields.prefix}activation_function", "only gelu is known")
    hidden, ffn = fields.integer("d_model", low=4), fields.integer("encoder_ffn_dim", low=1)
    heads, bands = fields.integer("encoder_attention_heads", low=1), fields.integer("num_mel_bins", low=1, high=1024)
    if hidden % heads or hidden % 2:
        raise UnsupportedModelError(f"{fields.prefix}encoder_attention_heads", f"{heads} heads do not divide {hidden}")
    width, window = fields.integer("output_dim", low=1), 2 * fields.integer("n_window", low=1, high=1 << 16)
    layers = fields.integer("encoder_layers", low=1, high=1024)
    takes = Clips(SAMPLES_PER_S, MOST_SECONDS * SAMPLES_PER_S, HOP)
    hearing = OmniHearing(
        takes=takes,
        filters=torch.from_numpy(mel_filters(bands)).to(reader.device),
        first=convolution(inside.under("conv1."), bands, hidden, 1),
        second=convolution(inside.under("conv2."), hidden, hidden, 2),
        positions=_sinusoids(window // 2, hidden).to(reader.like),
        layers=tuple(whisper_encoder_layer(inside.under(f"layers.{i}."), hidden, heads, ffn) for i in range(layers)),
        norm=inside.layer_norm("ln_post", hidden, _EPSILON),
        output=inside.whole("proj", width, hidden, bias=True),
        window=window,
    )
    return ReadEncoder(takes, width, hearing, hidden, ffn)


def _sinusoids(length: int, width: int) -> torch.Tensor:
    """(length, width): sines, then cosines, of positions over timescales up to 10,000 (Vaswani et al. 2017, section
    3.5)."""
    step = np.log(10_000.0) / (width // 2 - 1)
    angles = torch.arange(length)[:, None] * torch.exp(-step * torch.arange(width // 2).float())
    return torch.cat((angles.sin(), angles.cos()), dim=1)
