"""Reads the layers of Whisper's decoder (Radford et al. 2022, section 2.2), whose names and shape are its own."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.torch_engine.attention import Attention
from agents.engines.torch_engine.decoder_config import DecoderConfig
from agents.engines.torch_engine.decoder_layer import DecoderLayer
from agents.engines.torch_engine.encoder_attention import EncoderAttention
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.linear import Projection, packed

QUERY_KEY_VALUE = ("q_proj", "k_proj", "v_proj")


@dataclass(frozen=True, slots=True, eq=False)
class GeluMlp:
    """out(gelu(into(x)))."""

    into: Projection
    out: Projection

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) → (tokens, hidden)"""
        return self.out(functional.gelu(self.into(rows)))


def whisper_layer(reader: LayerReader, config: DecoderConfig) -> DecoderLayer:
    hidden, epsilon = config.hidden_size, config.norm_epsilon
    own, other = reader.under("self_attn."), reader.under("encoder_attn.")
    heads = config.heads // reader.shard.size
    attention = Attention(
        query_key_value=projections_without_key_bias(own, QUERY_KEY_VALUE, hidden),
        output=own.out_of("out_proj", hidden, hidden, bias=True),
        heads=heads,
        kv_heads=heads,
        head_dim=config.head_dim,
        query_norm=None,
        key_norm=None,
        sinks=None,
    )
    to_encoder = EncoderAttention(
        norm=reader.layer_norm("encoder_attn_layer_norm", hidden, epsilon),
        query=projections_without_key_bias(other, QUERY_KEY_VALUE[:1], hidden),
        key_value=projections_without_key_bias(other, QUERY_KEY_VALUE[1:], hidden),
        output=other.out_of("out_proj", hidden, hidden, bias=True),
        heads=heads,
        head_dim=config.head_dim,
    )
    into = reader.into(("fc1",), (reader.cut(config.ffn_width),), hidden, bias=True)
    return DecoderLayer(
        attention_norm=reader.layer_norm("self_attn_layer_norm", hidden, epsilon),
        attention=attention,
        feed_forward_norm=reader.layer_norm("final_layer_norm", hidden, epsilon),
        feed_forward=GeluMlp(into, reader.out_of("fc2", hidden, config.ffn_width, bias=True)),
        total=reader.shard.total,
        encoder_attention=to_encoder,
    )


def projections_without_key_bias(reader: LayerReader, names: tuple[str, ...], hidden: int) -> Projection:
    """Projections of one input below each other; that of keys has no bias, which is one of zeros here."""
    cut = reader.cut(hidden)
    weights = reader.rows(names, (cut,) * len(names), hidden)
    biases = [
        torch.zeros(hidden, dtype=reader.dtype, device=reader.device)
        if name == "k_proj"
        else reader.tensor(f"{name}.bias", (hidden,))
        for name in names
    ]
    return packed(weights, torch.cat([bias[cut[1]] for bias in biases]))
