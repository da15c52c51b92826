"""A model cut over devices of a node in every way that plans have, each device an engine in a thread of its own."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
from torch.distributed import HashStore, PrefixStore, ProcessGroupGloo

from agents.engines.kv_part import KvPart
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from agents.engines.torch_engine.expert_exchange import ExpertExchange
from agents.engines.torch_engine.shard import Shard, shard_of, sum_over
from agents.weights.checkpoint import Checkpoint
from templates_lib.ports.cost_model import Parallel
from tests.agents.engines.pipelines import DEVICE, Pipeline, Running, cut, exported

T = TypeVar("T")
BLOCKS = 16


class SplitModel:
    """Replicas that do not share experts are like one, so there is one of them."""

    def __init__(self, pool: ThreadPoolExecutor, shards: Sequence[Shard], parallel: Parallel) -> None:
        self._pool = pool
        self.shards = shards
        self.replicas = len(shards) // parallel.tp
        self._parallel = parallel
        self.engines: list[list[TorchEngine]] = []
        """Rank → its engine in each part of the pipeline."""

    def each(self, work: Callable[[int], T]) -> list[T]:
        return list(self._pool.map(work, range(len(self.shards))))

    def load(self, checkpoint: Checkpoint, layers: int) -> None:
        part = layers // self._parallel.pp
        parts = cut([part] * (self._parallel.pp - 1) + [layers - part * (self._parallel.pp - 1)])
        self.engines = self.each(
            lambda rank: [
                load_torch_engine(checkpoint, held, BLOCKS, torch.float32, DEVICE, self.shards[rank]) for held in parts
            ]
        )

    def replica(self, rank: int) -> int:
        return rank // self._parallel.tp

    def of_replica(self, replica: int) -> list[TorchEngine]:
        """All engines that hold a part of its layers."""
        return [e for rank, own in enumerate(self.engines) if self.replica(rank) == replica for e in own]

    def prompted(self, prompts: Sequence[Sequence[int]]) -> list[Running]:
        """What each replica's request is after its prompt."""
        found = self.each(lambda rank: self._prompted(rank, prompts[self.replica(rank)]))
        return found[:: self._parallel.tp]

    def _prompted(self, rank: int, prompt: Sequence[int]) -> Running:
        running = Running("x", tuple(prompt))
        while not running.tokens:
            (running,) = Pipeline(self.engines[rank]).step([running], chunk=16)
        return running

    def finished(self, requests: Sequence[Running], tokens: int) -> list[list[int]]:
        """What each replica's request says, once it has said as much; it is forgotten then."""
        found = self.each(lambda rank: self._finished(rank, requests[self.replica(rank)], tokens))
        for rank in range(len(found)):
            assert found[rank] == found[rank - rank % self._parallel.tp]
        return found[:: self._parallel.tp]

    def _finished(self, rank: int, running: Running, tokens: int) -> list[int]:
        pipeline = Pipeline(self.engines[rank])
        while len(running.tokens) < tokens:
            (running,) = pipeline.step([running], chunk=1)
        pipeline.free("x")
        return list(running.tokens)


@contextmanager
def split_model(parallel: Parallel) -> Iterator[SplitModel]:
    """Ranks are joined as `shard_worker.load_rank` joins them."""
    spreads = parallel.ep > 1 and parallel.dp > 1
    size = parallel.tp * (parallel.dp if spreads else 1)
    store, timeout = HashStore(), timedelta(seconds=30)

    def joined(rank: int) -> Shard:
        torch.set_num_threads(1)
        replica, within = divmod(rank, parallel.tp)
        group = ProcessGroupGloo(PrefixStore(f"replica {replica}", store), within, parallel.tp, timeout)
        exchange = None
        if spreads:
            every = ProcessGroupGloo(PrefixStore("all", store), rank, size, timeout)
            exchange = ExpertExchange(rank, size, parallel.dp, sum_over(every), DEVICE)
        return shard_of(group, parallel.ep > 1, exchange)

    with ThreadPoolExecutor(size) as pool:
        yield SplitModel(pool, list(pool.map(joined, range(size))), parallel)


def hand_over(tokens: int, sources: Sequence[TorchEngine], targets: Sequence[TorchEngine]) -> None:
    """Moves request x, head by head, between engines that hold parts of its layers and heads each."""
    for target in targets:
        facts = target.facts
        target.reserve("x", tokens)
        for layer in range(facts.held.first_layer, facts.held.end):
            for head in range(facts.first_kv_head, facts.first_kv_head + facts.kv_heads):
                source = next(s for s in sources if _holds(s, layer, head))
                first = source.first_kept_token(layer, tokens)
                part = KvPart(layer, 1, head, 1, first, tokens - first)
                target.import_kv("x", part, exported(source, "x", part))


def _holds(engine: TorchEngine, layer: int, head: int) -> bool:
    facts = engine.facts
    is_layer = facts.held.first_layer <= layer < facts.held.end
    return is_layer and facts.first_kv_head <= head < facts.first_kv_head + facts.kv_heads
