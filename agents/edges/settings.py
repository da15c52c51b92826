"""Settings that both ends of an edge agree on before it exists: no size travels with the rows."""

from dataclasses import dataclass

import torch

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    hidden_size: int
    dtype: torch.dtype
    max_rows: int
    """Rows of one step: bounds what an end allocates."""
    peer_timeout_s: float
    """A peer that takes or gives nothing for as long, while it should, counts as lost: longer than one step."""
    interface: str = "127.0.0.1"
    """This node's address on the private network; nothing is bound elsewhere."""
    device: torch.device = _CPU
    """Device of this node's rows."""
    tries_nccl: bool = False
    """Whether edges between two GPUs try NCCL first: the same at all nodes of an instance."""
    unsent: int = 4
    """Sends that the peer may be behind before the next one waits."""
