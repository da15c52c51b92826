"""Facts of an engine, for those who send it work and exchange KV cache with it."""

from dataclasses import dataclass

import torch

from agents.engines.layer_range import LayerRange


@dataclass(frozen=True, slots=True)
class StageFacts:
    engine: str
    """`torch` or `vllm`: cost models are keyed by it."""
    held: LayerRange
    model_layers: int
    hidden_size: int
    vocab_size: int
    max_context_tokens: int
    """0: the config does not say."""
    dtype: torch.dtype
    """Of activations between stages and of the KV cache."""
    device: torch.device
    first_kv_head: int
    kv_heads: int
    """KV heads held here: all of them unless the stage is a tensor-parallel shard."""
    head_dim: int
    block_tokens: int
    kv_blocks: int
    stop_token_ids: tuple[int, ...]
    """End-of-text ids that the checkpoint names."""
    loaded_bytes: int
    """Read from the checkpoint, as stored."""
    load_s: float
    position_axes: int = 1
    """3: tokens of images and videos are placed by frame, row and column, and steps say where these lie."""
    encoded_tokens: int = 0
    """Rows of an encoder that every request attends to; 0: the model attends to none."""
    encoded_width: int = 0
    takes_rows: bool = False
    """Rows may be given in place of tokens' embeddings, and hidden states asked for."""
    obeys_grammars: bool = False
    """Rules may have a grammar: the model's tokens are known as text."""
    shares_kv: bool = False
    """Requests may begin with KV blocks of others, and leave some that are kept."""
    verifies_drafts: bool = False
    """Steps may bring drafts."""
