"""The thread that copies KV cache in and out of one rank of a sharded stage, beside its steps."""

import threading
from multiprocessing.connection import Connection

from agents.engines.errors import EngineError
from agents.engines.kv_part import empty_part
from agents.engines.torch_engine import shard_commands
from agents.engines.torch_engine.engine import TorchEngine
from agents.engines.torch_engine.shard_commands import (
    CommandFailed,
    Copy,
    Exported,
    ExportKv,
    Imported,
    PackedTensor,
    encode,
)


class ShardCopies:
    """Serves until the leader's end of the pipe is closed."""

    def __init__(self, engine: TorchEngine, leader: Connection) -> None:
        self._engine = engine
        self._leader = leader
        self._obeyed = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="kv-copies", daemon=True)
        self._thread.start()

    def count_command(self) -> None:
        """One more is obeyed: a copy may wait for it, since the leader may be done with it sooner."""
        with self._changed:
            self._obeyed += 1
            self._changed.notify()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            try:
                copy = shard_commands.copies.decode(self._leader.recv_bytes())
                self._leader.send_bytes(encode(self._answer(copy)))
            except (EOFError, OSError):
                return

    def _answer(self, copy: Copy) -> Exported | Imported | CommandFailed:
        with self._changed:
            self._changed.wait_for(lambda: self._obeyed >= copy.behind)
        try:
            if isinstance(copy, ExportKv):
                exported = empty_part(copy.part, self._engine.facts)
                self._engine.export_kv(copy.request_id, copy.part, exported)
                return Exported(PackedTensor.of(exported))
            self._engine.import_kv(copy.request_id, copy.part, copy.rows.tensor())
        except EngineError as error:
            return CommandFailed(str(error))
        return Imported()
