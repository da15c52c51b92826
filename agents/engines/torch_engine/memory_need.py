"""Memory that a range of layers takes on a device, known before anything is read."""

import math
from dataclasses import dataclass

import torch

from agents.engines.errors import OutOfMemoryError
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.decoder_config import DecoderConfig
from agents.engines.torch_engine.shard import WHOLE, Shard
from agents.engines.torch_engine.stage_weights import EMBEDDING, HEAD, NORM, POSITIONS, layer_prefix
from agents.weights.checkpoint import Checkpoint

REPLICATED = ("norm", "router", "mlp.gate.", POSITIONS)
"""Parts of the names of tensors that every shard holds whole."""
KEPT_AS_STORED = (
    *("_blocks", "_scales", ".scales", ".qweight", ".qzeros", ".weight_packed", ".weight_zero_point"),
    *(".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight_global_scale"),
)
"""Ends of the names of quantised tensors and scales, beside `weight`s that have scales."""
NOT_KEPT = (".g_idx", ".weight_g_idx", ".weight_shape", "_scale", ".input_global_scale")
"""The same of what is not held, or as next to nothing: the order of inputs, and scales of activations and KV caches."""
KEYS_AND_VALUES = (".k_proj", ".v_proj")
"""The same of those that are cut into no more pieces than there are KV heads."""
_SCALES = ("scale", "scale_inv")


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes on one device; the activations of a step come on top."""

    weight_bytes: int
    kv_block_bytes: int
    """One block of BLOCK_TOKENS tokens of all held layers."""

    def total_bytes(self, kv_blocks: int) -> int:
        return self.weight_bytes + kv_blocks * self.kv_block_bytes

    def kv_blocks_within(self, memory_bytes: int) -> int:
        """KV blocks that `memory_bytes` have room for beside the weights; 0 where not even these fit."""
        return max(0, memory_bytes - self.weight_bytes) // self.kv_block_bytes

    def check(self, held: LayerRange, kv_blocks: int, memory_bytes: int | None) -> None:
        """Raises OutOfMemoryError unless `held` and its cache fit `memory_bytes`; None: whatever the device gives."""
        if memory_bytes is not None and self.total_bytes(kv_blocks) > memory_bytes:
            raise OutOfMemoryError(
                f"{held} takes {self.weight_bytes / 2**20:.0f} MiB of weights and {kv_blocks} KV blocks of "
                f"{self.kv_block_bytes / 2**20:.2f} MiB, of {memory_bytes / 2**20:.0f} MiB: load at most "
                f"{self.kv_blocks_within(memory_bytes)} blocks, or fewer layers"
            )


def memory_need(
    checkpoint: Checkpoint, config: DecoderConfig, held: LayerRange, dtype: torch.dtype, shard: Shard = WHOLE
) -> MemoryNeed:
    """Return what `shard`'s part of `held` takes, kept as `dtype`. Raises MissingWeightsError where a whole tensor is
    not there."""
    prefixes = tuple(layer_prefix(layer) for layer in range(held.first_layer, held.end))
    names = [name for name in checkpoint.names if name.startswith(prefixes)]
    if held.first or (held.last and config.tied_embeddings):
        names.append(EMBEDDING)
    if held.first and config.is_whisper:
        names.append(POSITIONS)
    if held.last:
        names += [f"{NORM}.bias"] if config.is_whisper else []
        names += [f"{NORM}.weight"] if config.tied_embeddings else [f"{NORM}.weight", HEAD]
    weights = sum(_held_bytes(checkpoint, name, dtype, shard, config) for name in names)
    kv_heads = shard.kv_heads(config.kv_heads)
    token = 2 * (kv_heads.stop - kv_heads.start) * config.head_dim * dtype.itemsize
    return MemoryNeed(weights, BLOCK_TOKENS * token * held.layers)


def _held_bytes(checkpoint: Checkpoint, name: str, dtype: torch.dtype, shard: Shard, config: DecoderConfig) -> int:
    """What `shard` holds of a tensor: as `dtype`, or as it is stored where it is quantised."""
    is_kept = name.endswith(KEPT_AS_STORED) or any(f"{name}_{each}" in checkpoint.names for each in _SCALES)
    if name.endswith(NOT_KEPT) and not is_kept:
        return 0
    size: int = checkpoint.stored_bytes(name) if is_kept else math.prod(checkpoint.shape(name)) * dtype.itemsize
    if name in (EMBEDDING, HEAD):
        held = shard.vocabulary(config.vocab_size)
        return size * int(held.stop - held.start) // config.vocab_size
    if ".qkv_proj" not in name:
        return size // _cut(name, shard, config)
    queries = size * config.heads // (config.heads + 2 * config.kv_heads)
    return queries // shard.size + (size - queries) // min(shard.size, config.kv_heads)


def _cut(name: str, shard: Shard, config: DecoderConfig) -> int:
    if any(part in name for part in KEYS_AND_VALUES):
        return min(shard.size, config.kv_heads)
    if shard.exchange is not None and ".experts." in name:
        return shard.exchange.size
    return 1 if any(part in name for part in REPLICATED) else shard.size
