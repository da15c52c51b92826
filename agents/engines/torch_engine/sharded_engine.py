"""A stage on several devices of one node, behind the interface of one engine."""

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.context import SpawnProcess
from pathlib import Path

import torch

from agents.engines.batch import StepBatch
from agents.engines.checks import check_part_shape
from agents.engines.errors import BadBatchError, EngineError, RankLostError
from agents.engines.kv_part import KvPart
from agents.engines.layer_range import LayerRange
from agents.engines.stage_facts import StageFacts
from agents.engines.step_output import StepOutput
from agents.engines.torch_engine import shard_commands
from agents.engines.torch_engine.engine import TorchEngine
from agents.engines.torch_engine.shard_commands import (
    Command,
    ExportKv,
    Failed,
    Free,
    ImportKv,
    Reserve,
    Rows,
    Step,
    encode,
)
from agents.engines.torch_engine.shard_worker import ShardPlan, load_rank, run_rank


def load_sharded_engine(
    checkpoint: Path,
    held: LayerRange,
    kv_blocks: int,
    dtype: torch.dtype,
    devices: tuple[torch.device, ...],
    whole_experts: bool,
    peer_timeout_s: float,
) -> "ShardedEngine":
    """Loads `held` cut over `devices`: by heads and feed-forward width, or experts whole. Rank 0 is this process, the
    others are children that end with it.

    Raises what load_torch_engine raises, and EngineError with the reason of a rank that could not load.
    """
    start = time.perf_counter()
    threads = max(1, torch.get_num_threads() // len(devices))
    with tempfile.TemporaryDirectory(prefix="medley-shards-") as folder:
        store = Path(folder) / "store"
        plan = ShardPlan(checkpoint, held, kv_blocks, dtype, devices, whole_experts, store, peer_timeout_s, threads)
        ranks = [_Rank(plan, rank) for rank in range(1, len(devices))]
        try:
            local = load_rank(plan, 0)
            stored_bytes = local.facts.loaded_bytes + sum(rank.loaded() for rank in ranks)
        except BaseException:
            for rank in ranks:
                rank.stop()
            raise
    facts = replace(
        local.facts,
        kv_heads=local.facts.kv_heads * len(devices),
        loaded_bytes=stored_bytes,
        load_s=time.perf_counter() - start,
    )
    return ShardedEngine(facts, local, ranks)


class _Rank:
    """Another rank, as its leader sees it."""

    def __init__(self, plan: ShardPlan, rank: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.rank = rank
        self._timeout_s = plan.peer_timeout_s
        self._pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(target=run_rank, args=(plan, rank, theirs), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends when the process does

    def loaded(self) -> int:
        """Bytes it read. Raises EngineError where it could not load."""
        answer = shard_commands.first_answers.decode(self._received(None))
        if isinstance(answer, Failed):
            raise EngineError(f"rank {self.rank} could not load: {answer.why}")
        return answer.stored_bytes

    def tell(self, command: bytes) -> None:
        try:
            self._pipe.send_bytes(command)
        except OSError as error:
            raise RankLostError(f"rank {self.rank} of the stage is gone ({error})") from error

    def rows(self) -> torch.Tensor:
        return shard_commands.rows.decode(self._received(self._timeout_s)).tensor()

    def stop(self) -> None:
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _received(self, timeout_s: float | None) -> bytes:
        """The next answer; None waits as long as the process lives."""
        try:
            if not self._pipe.poll(timeout_s):
                raise RankLostError(f"rank {self.rank} of the stage did not answer in {timeout_s} s")
            return self._pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise RankLostError(f"rank {self.rank} of the stage ended without an answer") from error


class ShardedEngine:
    """A StageEngine whose KV heads lie on several ranks; every rank takes every step."""

    def __init__(self, facts: StageFacts, local: TorchEngine, others: list[_Rank]) -> None:
        self.facts = facts
        self._local = local
        self._others = others

    @property
    def free_kv_blocks(self) -> int:
        return self._local.free_kv_blocks

    def kv_blocks_short(self, batch: StepBatch) -> int:
        return self._local.kv_blocks_short(batch)

    def step(self, batch: StepBatch, rows: torch.Tensor) -> StepOutput:
        self._tell(Step(batch, Rows.of(rows)))
        try:
            return self._local.step(batch, rows)
        except RuntimeError as error:  # a sum with a rank that is gone
            raise RankLostError(f"a rank of the stage took no part in the step ({error})") from error

    def free(self, request_id: str) -> None:
        self._tell(Free(request_id))
        self._local.free(request_id)

    def reserve(self, request_id: str, tokens: int) -> None:
        self._tell(Reserve(request_id, tokens))
        self._local.reserve(request_id, tokens)

    def export_kv(self, request_id: str, part: KvPart, out: torch.Tensor) -> None:
        self._check(request_id, part)
        check_part_shape(part, out, self.facts.head_dim)
        for rank, piece in self._pieces(part):
            heads = _heads(out, part, piece)
            if rank is None:
                self._local.export_kv(request_id, piece, heads)
            else:
                rank.tell(encode(ExportKv(request_id, piece)))
                heads.copy_(rank.rows())

    def import_kv(self, request_id: str, part: KvPart, tensor: torch.Tensor) -> None:
        self._check(request_id, part)
        check_part_shape(part, tensor, self.facts.head_dim)
        for rank, piece in self._pieces(part):
            heads = _heads(tensor, part, piece)
            if rank is None:
                self._local.import_kv(request_id, piece, heads)
            else:
                rank.tell(encode(ImportKv(request_id, piece, Rows.of(heads))))

    def first_kept_token(self, layer: int, tokens: int) -> int:
        return self._local.first_kept_token(layer, tokens)

    def close(self) -> None:
        for rank in self._others:
            rank.stop()
        self._local.close()

    def _tell(self, command: Command) -> None:
        message = encode(command)
        for rank in self._others:
            rank.tell(message)

    def _check(self, request_id: str, part: KvPart) -> None:
        """All ranks keep the same tokens, so that what this one refuses none would answer."""
        if part.first_head + part.heads > self.facts.kv_heads:
            raise BadBatchError(f"KV heads of {part} are not all in [0, {self.facts.kv_heads})")
        self._local.check_kv(request_id, replace(part, first_head=0, heads=1))

    def _pieces(self, part: KvPart) -> Iterator[tuple["_Rank | None", KvPart]]:
        """The ranks that hold heads of `part` (None: this one), each with its piece, heads rising."""
        held = self._local.facts.kv_heads
        for number, rank in enumerate((None, *self._others)):
            first = max(part.first_head, number * held)
            heads = min(part.first_head + part.heads, (number + 1) * held) - first
            if heads > 0:
                yield rank, replace(part, first_head=first, heads=heads)


def _heads(tensor: torch.Tensor, part: KvPart, piece: KvPart) -> torch.Tensor:
    """Of `part`'s tensor, those of `piece`."""
    at = piece.first_head - part.first_head
    return tensor[:, :, :, at : at + piece.heads]
