"""Another rank of a sharded stage, as the first one sees it."""

import multiprocessing
import threading
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import torch

from agents.engines.errors import EngineError, RankLostError
from agents.engines.kv_part import KvPart
from agents.engines.torch_engine import shard_commands
from agents.engines.torch_engine.shard_commands import (
    CommandFailed,
    Copy,
    Exported,
    ExportKv,
    Imported,
    ImportKv,
    PackedTensor,
)
from agents.engines.torch_engine.shard_worker import ShardPlan, run_rank


class ShardRank:
    """A process of its own. Commands and copies have a pipe each, so that a copy does not wait behind a step."""

    def __init__(self, plan: ShardPlan, rank: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.rank = rank
        self._timeout_s = plan.peer_timeout_s
        self._commands, their_commands = context.Pipe()
        self._copies, their_copies = context.Pipe()
        self._copying = threading.Lock()
        """Held from a copy to its answer."""
        ends = (their_commands, their_copies)
        self._process: SpawnProcess = context.Process(target=run_rank, args=(plan, rank, *ends), daemon=True)
        self._process.start()
        for end in ends:
            end.close()  # so that the pipe ends when the process does

    def loaded(self) -> int:
        """Bytes it read. Raises EngineError where it could not load."""
        answer = shard_commands.first_answers.decode(self._received(self._commands, None))
        if isinstance(answer, CommandFailed):
            raise EngineError(f"rank {self.rank} could not load: {answer.why}")
        return answer.stored_bytes

    def tell(self, command: bytes) -> None:
        """Send a command. Called from one thread at a time."""
        self._send(self._commands, command)

    def exported(self, request_id: str, part: KvPart, behind: int) -> torch.Tensor:
        """Return what the rank has copied. `behind`: commands that must have been obeyed there before. Copies may be
        asked for by any thread."""
        answer = self._copied(ExportKv(request_id, part, behind))
        if not isinstance(answer, Exported):
            raise RankLostError(f"rank {self.rank} of the stage answered something else")
        return answer.rows.tensor()

    def import_kv(self, request_id: str, part: KvPart, tensor: torch.Tensor, behind: int) -> None:
        """Returns when it is there."""
        self._copied(ImportKv(request_id, part, PackedTensor.of(tensor), behind))

    def stop(self) -> None:
        self._commands.close()
        self._copies.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _copied(self, copy: Copy) -> Exported | Imported:
        message = shard_commands.encode(copy)
        with self._copying:
            self._send(self._copies, message)
            answer = shard_commands.copy_answers.decode(self._received(self._copies, self._timeout_s))
        if isinstance(answer, CommandFailed):
            raise EngineError(f"rank {self.rank} could not copy: {answer.why}")
        return answer

    def _send(self, pipe: Connection, message: bytes) -> None:
        try:
            pipe.send_bytes(message)
        except OSError as error:
            raise RankLostError(f"rank {self.rank} of the stage is gone ({error})") from error

    def _received(self, pipe: Connection, timeout_s: float | None) -> bytes:
        """The next answer; None waits as long as the process lives."""
        try:
            if not pipe.poll(timeout_s):
                raise RankLostError(f"rank {self.rank} of the stage did not answer in {timeout_s} s")
            return pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise RankLostError(f"rank {self.rank} of the stage ended without an answer") from error
