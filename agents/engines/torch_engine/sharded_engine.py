"""A stage on several devices of one node, behind the interface of one engine."""

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from agents.engines.batch import BlockName, StepBatch
from agents.engines.checks import check_part_shape
from agents.engines.errors import BadBatchError, RankLostError
from agents.engines.kv_part import KvPart
from agents.engines.layer_range import LayerRange
from agents.engines.protocol import Wrote
from agents.engines.stage_facts import StageFacts
from agents.engines.step_output import StepOutput
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.engines.torch_engine.engine import TorchEngine
from agents.engines.torch_engine.shard import kv_heads_of
from agents.engines.torch_engine.shard_commands import Command, Drop, Free, Reserve, encode, step_command
from agents.engines.torch_engine.shard_rank import ShardRank
from agents.engines.torch_engine.shard_worker import ReplicaPlan, ShardPlan, load_rank
from agents.weights.source import open_checkpoint


def load_sharded_engine(
    checkpoint: Path,
    held: LayerRange,
    kv_blocks: int,
    dtype: torch.dtype,
    devices: tuple[torch.device, ...],
    whole_experts: bool,
    peer_timeout_s: float,
    memory_bytes: int | None = None,
    replicas: ReplicaPlan | None = None,
) -> "ShardedEngine":
    """Loads `held` cut over `devices`: by heads and feed-forward width, or experts whole. Rank 0 is this process, the
    others are children that end with it. `memory_bytes`: what weights and KV cache may take of all devices together.
    `replicas`: the experts, held whole, are spread over the ranks of these, too; then a step may be of no request.

    Raises what load_torch_engine raises, and EngineError with the reason of a rank that could not load.
    """
    start = time.perf_counter()
    threads = max(1, torch.get_num_threads() // len(devices))
    with tempfile.TemporaryDirectory(prefix="medley-shards-") as folder:
        store = Path(folder) / "store"
        plan = ShardPlan(
            checkpoint,
            held,
            kv_blocks,
            dtype,
            devices,
            whole_experts,
            store,
            peer_timeout_s,
            threads,
            None if memory_bytes is None else memory_bytes // len(devices),
            replicas,
        )
        ranks = [ShardRank(plan, rank) for rank in range(1, len(devices))]
        try:
            local = load_rank(plan, 0)
            stored_bytes = local.facts.loaded_bytes + sum(rank.loaded() for rank in ranks)
        except BaseException:
            for rank in ranks:
                rank.stop()
            raise
    facts = replace(
        local.facts,
        kv_heads=decoder_config(decoder_part(open_checkpoint(checkpoint)).config).kv_heads,
        loaded_bytes=stored_bytes,
        load_s=time.perf_counter() - start,
    )
    return ShardedEngine(facts, local, ranks)


class ShardedEngine:
    """A StageEngine whose KV heads lie on several ranks; every rank takes every step."""

    def __init__(self, facts: StageFacts, local: TorchEngine, others: list[ShardRank]) -> None:
        self.facts = facts
        self.wrote: Wrote = lambda _end_layer: None
        self._local = local
        self._others = others
        self._telling = threading.Lock()
        """Held for a moment: all ranks are told in the same order."""
        self._told_commands = 0
        self._obeyed = 0
        """The latest command that this rank is done with."""

    @property
    def free_kv_blocks(self) -> int:
        return self._local.free_kv_blocks

    def kv_blocks_short(self, batch: StepBatch) -> int:
        return self._local.kv_blocks_short(batch)

    def step(self, batch: StepBatch, rows: torch.Tensor) -> StepOutput:
        with self._told(step_command(batch, rows)):
            try:
                return self._local.step(batch, rows)
            except RuntimeError as error:  # a sum with a rank that is gone
                raise RankLostError(f"a rank of the stage took no part in the step ({error})") from error

    def free(self, request_id: str, kept: Sequence[int] = ()) -> None:
        with self._told(Free(request_id, tuple(kept))):
            self._local.free(request_id, kept)

    def drop(self, blocks: Sequence[BlockName]) -> None:
        with self._told(Drop(tuple(blocks))):
            self._local.drop(blocks)

    def reserve(self, request_id: str, tokens: int) -> None:
        with self._told(Reserve(request_id, tokens)):
            self._local.reserve(request_id, tokens)

    def export_kv(self, request_id: str, part: KvPart, out: torch.Tensor) -> None:
        behind = self._obeyed
        self._check(request_id, part)
        check_part_shape(part, out, self.facts.head_dim)
        given: set[int] = set()
        for rank, piece in self._pieces(part):
            if piece.first_head in given:
                continue  # by another rank that holds the same
            given.add(piece.first_head)
            heads = _heads(out, part, piece)
            if rank is None:
                self._local.export_kv(request_id, piece, heads)
            else:
                heads.copy_(rank.exported(request_id, piece, behind))

    def import_kv(self, request_id: str, part: KvPart, tensor: torch.Tensor) -> None:
        behind = self._obeyed
        self._check(request_id, part)
        check_part_shape(part, tensor, self.facts.head_dim)
        for rank, piece in self._pieces(part):
            heads = _heads(tensor, part, piece)
            if rank is None:
                self._local.import_kv(request_id, piece, heads)
            else:
                rank.import_kv(request_id, piece, heads, behind)

    lent_kv = None

    def first_kept_token(self, layer: int, tokens: int) -> int:
        return self._local.first_kept_token(layer, tokens)

    def close(self) -> None:
        for rank in self._others:
            rank.stop()
        self._local.close()

    @contextmanager
    def _told(self, command: Command) -> Iterator[None]:
        """The other ranks are; inside, this one does the same. What it refuses, they do."""
        message = encode(command)
        with self._telling:
            self._told_commands += 1
            number = self._told_commands
            for rank in self._others:
                rank.tell(message)
        try:
            yield
        finally:
            with self._telling:
                self._obeyed = max(self._obeyed, number)

    def _check(self, request_id: str, part: KvPart) -> None:
        """All ranks keep the same tokens, so that what this one refuses none would answer."""
        if part.first_head + part.heads > self.facts.kv_heads:
            raise BadBatchError(f"KV heads of {part} are not all in [0, {self.facts.kv_heads})")
        self._local.check_kv(request_id, replace(part, first_head=0, heads=1))

    def _pieces(self, part: KvPart) -> Iterator[tuple[ShardRank | None, KvPart]]:
        """The ranks that hold heads of `part` (None: this one), each with its piece, heads rising."""
        every = (None, *self._others)
        for number, rank in enumerate(every):
            held = kv_heads_of(number, len(every), self.facts.kv_heads)
            first = max(part.first_head, held.start)
            heads = min(part.first_head + part.heads, held.stop) - first
            if heads > 0:
                yield rank, replace(part, first_head=first, heads=heads)


def _heads(tensor: torch.Tensor, part: KvPart, piece: KvPart) -> torch.Tensor:
    """Return the heads of `piece` in `part`'s tensor."""
    at = piece.first_head - part.first_head
    return tensor[:, :, :, at : at + piece.heads]
