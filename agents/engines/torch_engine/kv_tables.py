"""Where the requests of a step have their KV cache, on the device."""

from dataclasses import dataclass

import torch

from agents.engines.torch_engine.block_table import BLOCK_TOKENS


@dataclass(frozen=True, slots=True, eq=False)
class KvTables:
    """Of the layers of one window group."""

    units: torch.Tensor
    """(layers, requests, blocks) int32: block `first_block + b` of a request; what is behind its last is any unit."""
    first_block: torch.Tensor
    """(requests,) int32"""

    def slots(self, request: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """(layers, tokens) int64: where keys and values of tokens lie, which these are the requests and positions
        of."""
        block = position // BLOCK_TOKENS - self.first_block[request]
        return self.units[:, request, block].long() * BLOCK_TOKENS + position % BLOCK_TOKENS
