"""Facts of an engine that holds layers of a decoder."""

import torch

from agents.engines.grid_positions import AXES
from agents.engines.layer_range import LayerRange
from agents.engines.stage_facts import StageFacts
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.decoder_config import DecoderConfig
from agents.engines.torch_engine.shard import Shard


def decoder_facts(
    engine: str,
    config: DecoderConfig,
    held: LayerRange,
    shard: Shard,
    dtype: torch.dtype,
    device: torch.device,
    kv_blocks: int,
    loaded_bytes: int,
    load_s: float,
) -> StageFacts:
    """Return the facts of `shard`'s part of `held`."""
    kv_heads = shard.kv_heads(config.kv_heads)
    return StageFacts(
        engine=engine,
        held=held,
        model_layers=config.layers,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        max_context_tokens=config.max_context_tokens,
        dtype=dtype,
        device=device,
        first_kv_head=kv_heads.start,
        kv_heads=kv_heads.stop - kv_heads.start,
        head_dim=config.head_dim,
        block_tokens=BLOCK_TOKENS,
        kv_blocks=kv_blocks,
        stop_token_ids=config.stop_token_ids,
        loaded_bytes=loaded_bytes,
        load_s=load_s,
        position_axes=AXES if config.rope.axis_of else 1,
        encoded_tokens=config.encoded_tokens,
        encoded_width=config.hidden_size if config.encoded_tokens else 0,
        takes_rows=engine == "torch",
    )
