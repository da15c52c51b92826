"""One rank's part of a stage that is cut across heads and feed-forward width, or across experts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from agents.engines.torch_engine.decoder_config import DecoderConfig
from agents.engines.torch_engine.expert_exchange import ExpertExchange


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """Tensor parallelism as in Megatron-LM (Shoeybi et al. 2019, section 3): the projections into heads and width are
    cut by rows, those out of them by columns, and the partial outputs of each block are summed over the ranks.

    Embedding and LM head are cut by tokens of the vocabulary, as plans count them, and every rank has the logits of
    all, so that all sample the same token. Norms and router are whole on every rank.
    """

    rank: int
    size: int
    whole_experts: bool
    """Each rank holds some experts whole (expert parallel) instead of a part of each."""
    total: Callable[[torch.Tensor], torch.Tensor]
    """Sums a tensor over the ranks; every rank calls it for the same layers in the same order."""
    exchange: ExpertExchange | None = None
    """With other replicas of the node, which hold experts of this one and it theirs."""

    def span(self, size: int) -> slice:
        """Return this rank's part of `size` rows, columns or experts."""
        part = size // self.size
        return slice(self.rank * part, (self.rank + 1) * part)

    def vocabulary(self, size: int) -> slice:
        """Return this rank's part of `size` tokens, which need not divide evenly."""
        return slice(self.rank * size // self.size, (self.rank + 1) * size // self.size)

    def experts(self, count: int) -> slice:
        """Return this rank's part of `count` experts, where they are held whole."""
        return self.span(count) if self.exchange is None else self.exchange.span(count)

    def kv_heads(self, count: int) -> slice:
        """Return this rank's part of `count` KV heads."""
        return kv_heads_of(self.rank, self.size, count)

    @property
    def adds_bias(self) -> bool:
        """Outputs are summed: one rank alone adds their bias."""
        return self.rank == 0

    def check(self, config: DecoderConfig) -> None:
        """Raises ValueError where the model cannot be cut into as many equal parts."""
        experts = config.experts
        parts = {"attention heads": config.heads}
        if self.size % config.kv_heads:
            parts["KV heads"] = config.kv_heads
        if experts is None:
            parts["feed-forward width"] = config.ffn_width
        elif self.whole_experts:
            parts["experts"] = experts.count
        else:
            parts["expert width"] = experts.width
        cuts = {what: (size, self.size) for what, size in parts.items()}
        if self.exchange is not None:
            if experts is None:
                raise ValueError("a model without experts has none to spread over replicas")
            cuts["experts"] = experts.count, self.exchange.size
        for what, (size, pieces) in cuts.items():
            if size % pieces:
                raise ValueError(f"{size} {what} cannot be cut into {pieces} equal parts: choose a divisor")


def kv_heads_of(rank: int, size: int, count: int) -> slice:
    """KV heads of one of `size` ranks. Where there are fewer heads than ranks, some ranks hold the same one, each with
    a part of the query heads that share it."""
    first = rank * count // size
    return slice(first, first + max(1, count // size))


WHOLE = Shard(0, 1, whole_experts=False, total=lambda tensor: tensor)


class Ranks(Protocol):
    """Part of a process group that is needed here: gloo on CPU, NCCL on CUDA."""

    def rank(self) -> int: ...

    def size(self) -> int: ...

    def allreduce(self, tensors: list[torch.Tensor]) -> Any:
        """Sums in place; the returned work is waited for."""


def shard_of(group: Ranks, whole_experts: bool, exchange: ExpertExchange | None = None) -> Shard:
    """The part that belongs to this rank of `group`."""
    return Shard(group.rank(), group.size(), whole_experts, sum_over(group), exchange)


def sum_over(group: Ranks) -> Callable[[torch.Tensor], torch.Tensor]:
    def total(tensor: torch.Tensor) -> torch.Tensor:
        summed = tensor.contiguous()
        group.allreduce([summed]).wait()
        return summed

    return total
