"""Diffusion transformer of Qwen2.5-Omni's vocoder: codec tokens to mel frames (Xu et al. 2025, section 2.3; Peebles and
Xie 2023)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from agents.engines.components.codes import CodecUnit
from agents.engines.torch_components.encoder_layer import Rotation, all_rows
from agents.engines.torch_components.flow import follow
from agents.engines.torch_components.speaker_encoder import SpeakerEncoder, read_speaker_encoder
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.linear import Linear, Projection
from agents.engines.torch_engine.rope import Rope, rope_of, rotate
from templates_lib.models.config_fields import Fields, UnsupportedModelError

GUIDANCE = 0.5
"""How much further from what is made without voice and codes (Ho and Salimans 2022)."""
_EPSILON = 1e-6
_TIME_WIDTH = 256


@dataclass(frozen=True, slots=True, eq=False)
class DenoiserLayer:
    """Attention among near blocks of frames and a feed-forward block, both modulated by the time."""

    modulation: Linear
    """Six widths: shift, scale and gate of either block."""
    query_key_value: Projection
    output: Linear
    into: Linear
    out: Linear
    heads: int
    behind: int
    """Blocks before its own that a frame sees."""
    ahead: int

    def __call__(
        self, rows: torch.Tensor, time: torch.Tensor, rotation: Rotation, apart: torch.Tensor, is_seen: torch.Tensor
    ) -> torch.Tensor:
        """(items, frames, hidden) → the same shape. `time`: (1, hidden); `apart`: (frames, frames) blocks from a query
        to a key; `is_seen`: (items, 1, frames, frames), by a query of a key."""
        shift, scale, gate, next_shift, next_scale, next_gate = self.modulation(functional.silu(time)).chunk(6, dim=1)
        mask = (apart >= -self.behind) & (apart <= self.ahead) & is_seen
        rows = rows + gate * self._attended(_modulated(rows, shift, scale), rotation, mask)
        fed = _modulated(rows, next_shift, next_scale).flatten(0, 1)
        fed = self.out(functional.gelu(self.into(fed), approximate="tanh"))
        return rows + next_gate * fed.view_as(rows)

    def _attended(self, rows: torch.Tensor, rotation: Rotation, mask: torch.Tensor) -> torch.Tensor:
        shape = (*rows.shape[:2], self.heads, -1)
        query, key, value = (each.reshape(shape) for each in self.query_key_value(rows.flatten(0, 1)).chunk(3, dim=-1))
        # Only the first head is turned: so it was trained.
        query, key = (torch.cat((_turned(each[:, :, :1], rotation), each[:, :, 1:]), dim=2) for each in (query, key))
        query, key, value = (each.transpose(1, 2) for each in (query, key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.output(mixed.transpose(1, 2).reshape(len(rows) * rows.shape[1], -1)).view_as(rows)


@dataclass(frozen=True, slots=True, eq=False)
class MelDenoiser:
    codes: torch.Tensor
    """(tokens + 1, width); the first stands for no code, too."""
    frames: int
    """Of a token."""
    speaker: SpeakerEncoder
    from_mel: Linear
    from_rest: Linear
    """Of voice, codes and embedding: what does not change from pass to pass, with the bias."""
    time: tuple[Linear, Linear]
    layers: tuple[DenoiserLayer, ...]
    modulation: Linear
    output: Linear
    rope: Rope
    block: int
    """Frames that see each other."""
    bands: int
    like: torch.Tensor

    def __call__(self, units: Sequence[CodecUnit]) -> list[torch.Tensor]:
        """Codes → (frames, bands) each. Shorter ones are filled up, and what is filled up is not seen."""
        lengths = [self.frames * len(unit.codes) for unit in units]
        noise = [self._noise(unit, length) for unit, length in zip(units, lengths, strict=True)]
        fixed = [self._fixed(unit, is_guided) for is_guided in (True, False) for unit in units]
        frames = torch.arange(max(lengths), device=self.like.device)
        is_there = frames < torch.tensor(lengths * 2, device=self.like.device)[:, None]
        # What is filled up sees itself: a softmax over nothing would be no number, which spreads.
        is_seen = is_there[:, None, None] | torch.eye(len(frames), dtype=torch.bool, device=frames.device)
        apart = frames // self.block - (frames // self.block)[:, None]
        velocity = partial(
            self._velocity,
            fixed=pad_sequence(fixed, batch_first=True),
            rotation=self.rope.tables(frames),
            apart=apart,
            is_seen=is_seen,
        )
        mel = follow(velocity, pad_sequence(noise, batch_first=True))
        return [own[:length] for own, length in zip(mel, lengths, strict=True)]

    def _noise(self, unit: CodecUnit, frames: int) -> torch.Tensor:
        """Drawn on the processor: a GPU would draw another."""
        generator = torch.Generator().manual_seed(unit.seed)
        return torch.randn(1, frames, self.bands, generator=generator)[0].to(self.like)

    def _fixed(self, unit: CodecUnit, is_guided: bool) -> torch.Tensor:
        """(frames, hidden): by voice and codes, or by none."""
        mel, embedding = (torch.from_numpy(part).to(self.like) for part in (unit.voice.mel, unit.voice.embedding))
        codes = torch.from_numpy(unit.codes).to(self.like.device)
        if not is_guided:
            mel, embedding, codes = torch.zeros_like(mel), torch.zeros_like(embedding), torch.zeros_like(codes)
        said = self.codes[codes].repeat_interleave(self.frames, dim=0)
        voice = self.speaker(mel).expand(len(said), -1)
        return self.from_rest(torch.cat((voice, said, embedding.expand(len(said), -1)), dim=1))

    def _velocity(
        self,
        time: torch.Tensor,
        mel: torch.Tensor,
        fixed: torch.Tensor,
        rotation: Rotation,
        apart: torch.Tensor,
        is_seen: torch.Tensor,
    ) -> torch.Tensor:
        """(items, frames, bands) → the same shape, of one pass for both of each item."""
        known = self.from_mel(mel.flatten(0, 1)).view(*mel.shape[:2], -1)
        rows = torch.cat((known, known)) + fixed
        at = self._time(time)
        for layer in self.layers:
            rows = layer(rows, at, rotation, apart, is_seen)
        scale, shift = self.modulation(functional.silu(at)).chunk(2, dim=1)
        made = self.output(_modulated(rows, shift, scale).flatten(0, 1)).view(*rows.shape[:2], -1)
        guided, free = made.chunk(2)
        return guided + (guided - free) * GUIDANCE

    def _time(self, time: torch.Tensor) -> torch.Tensor:
        """(1, hidden): sines and cosines of the time, through two products."""
        half = _TIME_WIDTH // 2
        rates = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10_000) / (half - 1)))
        angles = 1000 * time * rates
        waves = torch.cat((angles.sin(), angles.cos()))[None].to(self.like)
        return self.time[1](functional.silu(self.time[0](waves)))


def _modulated(rows: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(rows, rows.shape[-1:], eps=_EPSILON) * (1 + scale) + shift


def _turned(heads: torch.Tensor, rotation: Rotation) -> torch.Tensor:
    """Neighbours are turned together in these weights; `rotate` turns pairs of the first half with the second."""
    halves = torch.cat((heads[..., 0::2], heads[..., 1::2]), dim=-1)
    return rotate(halves.float(), *rotation).to(heads)


def read_mel_denoiser(fields: Fields, reader: LayerReader) -> MelDenoiser:
    """By `dit_config`, whose keys are those of the publisher or of transformers."""
    hidden, heads = _either(fields, "hidden_size", "dim"), _either(fields, "num_attention_heads", "heads")
    depth, head_dim = _either(fields, "num_hidden_layers", "depth"), fields.integer("head_dim", low=2, high=4096)
    bands, inner = fields.integer("mel_dim", low=1, high=4096), heads * head_dim
    if head_dim % 2:
        raise UnsupportedModelError(f"{fields.prefix}head_dim", "is odd")
    speaker = read_speaker_encoder(fields, reader.under("input_embed.spk_encoder."), bands)
    code, voice = fields.integer("emb_dim", low=1), fields.integer("enc_emb_dim", low=1)
    rest = fields.integer("enc_dim", low=1) + code + voice
    joined = reader.tensor("input_embed.proj.weight", (hidden, bands + rest))
    ahead, behind = fields.integers("look_ahead_layers"), fields.integers("look_backward_layers")
    wide = fields.integer("ff_mult", 2, low=1, high=64) * hidden
    return MelDenoiser(
        codes=reader.tensor("text_embed.codec_embed.weight", (fields.integer("num_embeds", low=1) + 1, code)),
        frames=fields.integer("repeats", 2, low=1, high=64),
        speaker=speaker,
        from_mel=Linear(joined[:, :bands].contiguous()),
        from_rest=Linear(joined[:, bands:].contiguous(), reader.tensor("input_embed.proj.bias", (hidden,))),
        time=(
            reader.whole("time_embed.time_mlp.0", hidden, _TIME_WIDTH, bias=True),
            reader.whole("time_embed.time_mlp.2", hidden, hidden, bias=True),
        ),
        layers=tuple(
            _layer(reader.under(f"transformer_blocks.{i}."), hidden, inner, wide, heads, i in behind, i in ahead)
            for i in range(depth)
        ),
        modulation=reader.whole("norm_out.linear", 2 * hidden, hidden, bias=True),
        output=reader.whole("proj_out", bands, hidden, bias=True),
        rope=rope_of(fields, head_dim, fields.integer("max_position_embeddings", 32768, low=1)),
        block=fields.integer("block_size", low=1, high=1 << 16),
        bands=bands,
        like=reader.like,
    )


def _layer(
    reader: LayerReader, hidden: int, inner: int, wide: int, heads: int, looks_behind: bool, looks_ahead: bool
) -> DenoiserLayer:
    names = ("attn.to_q", "attn.to_k", "attn.to_v")
    return DenoiserLayer(
        modulation=reader.whole("attn_norm.linear", 6 * hidden, hidden, bias=True),
        query_key_value=reader.into(names, all_rows(inner, inner, inner), hidden, bias=True),
        output=reader.whole("attn.to_out.0", hidden, inner, bias=True),
        into=reader.whole("ff.ff.0", wide, hidden, bias=True),
        out=reader.whole("ff.ff.3", hidden, wide, bias=True),
        heads=heads,
        behind=int(looks_behind),
        ahead=int(looks_ahead),
    )


def _either(fields: Fields, *keys: str) -> int:
    return fields.integer(fields.name_of(*keys) or keys[0], low=1, high=1 << 16)
