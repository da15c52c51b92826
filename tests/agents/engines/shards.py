"""Shards of one stage in threads of this process, which sum over real gloo connections."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import torch
from torch.distributed import HashStore, PrefixStore, ProcessGroup, ProcessGroupGloo

from agents.engines.torch_engine.expert_exchange import ExpertExchange
from agents.engines.torch_engine.shard import WHOLE, Shard, shard_of, sum_over

T = TypeVar("T")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


class Ranks:
    """Runs a function on every rank at once."""

    def __init__(self, groups: list[ProcessGroup], pool: ThreadPoolExecutor, whole_experts: bool) -> None:
        self._pool = pool
        self.shards: list[Shard] = [shard_of(group, whole_experts) for group in groups]
        self.replicas: list[Shard] = [self._replica(group) for group in groups]
        """Whole but for their experts, which are spread over all of them."""

    @staticmethod
    def _replica(group: ProcessGroup) -> Shard:
        exchange = ExpertExchange(group.rank(), group.size(), group.size(), sum_over(group), torch.device("cpu"))
        return replace(WHOLE, whole_experts=True, exchange=exchange)

    def each(self, work: Callable[[int], T]) -> list[T]:
        return list(self._pool.map(work, range(len(self.shards))))


@contextmanager
def ranks(size: int, whole_experts: bool) -> Iterator[Ranks]:
    store = HashStore()

    def joined(rank: int) -> ProcessGroup:
        torch.set_num_threads(1)
        return ProcessGroupGloo(PrefixStore("shards", store), rank, size, timedelta(seconds=30))

    with ThreadPoolExecutor(size) as pool:
        yield Ranks(list(pool.map(joined, range(size))), pool, whole_experts)
