"""The engines of an executor with the tensors of its node: units in, rows out. Used by several threads, as each method
says."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event, Timer

import numpy as np

from agents.engines.components.protocol import EncoderEngine
from agents.engines.components.protocol import Rows as EncodedRows
from agents.engines.components.unit import EncoderUnit
from agents.engines.errors import BadBatchError
from agents.executor.exchange import Loaded, NoRows, Rows, UnitKey, Wanted
from agents.executor.queue import BatchLimits
from agents.messages.component_work import Encode
from agents.messages.tensor_spec import TensorSpec
from agents.messages.to_gateway import Failure
from agents.tensors.client import TensorClient
from agents.tensors.failures import failure_of
from agents.tensors.node_tensors import NodeTensors
from agents.transfer.errors import BlobGoneError, StoreFullError, TransferError

_SHORTEST_S = 0.001
_PATIENCE_S = 1.0
"""For room for rows that came late, or just in time."""


@dataclass(frozen=True, slots=True, eq=False)
class FetchedUnit:
    unit: EncoderUnit
    rows: int
    """That it is in a batch."""


class Encoders:
    def __init__(self, engines: Mapping[str, EncoderEngine], sidecar: str, process: str) -> None:
        """`sidecar`: its name on this node. `process`: whose quota of it this is."""
        self._engines = dict(engines)
        self._tensors = NodeTensors(sidecar, process)

    @property
    def loaded(self) -> Loaded:
        facts = {name: engine.facts for name, engine in self._engines.items()}
        limits = {name: BatchLimits(each.most_units, each.most_rows) for name, each in facts.items()}
        return Loaded(limits, sum(each.most_memory_bytes for each in facts.values()))

    def fetch(self, wanted: Wanted) -> FetchedUnit | Rows:
        """Bring the values of a unit here, or its rows, where they are kept; for any thread. Raises TransferError, and
        BadBatchError for what the component does not take."""

        def bring(tensors: TensorClient) -> FetchedUnit | Rows:
            return self._kept(tensors, wanted) or self._fetched(tensors, wanted)

        return self._tensors.use(bring)

    def _kept(self, tensors: TensorClient, wanted: Wanted) -> Rows | None:
        asked = wanted.asked
        if (key := self.key_of(asked)) is None:
            return None
        spec = tensors.adopt(asked.output, key, consumers=asked.consumers, keep_s=asked.keep_s)
        if spec is None:
            return None
        if not _are_rows(spec, self._engines[asked.component].facts.row_width):
            tensors.withdraw(asked.output)  # whoever put that under this key: it is no answer
            return None
        return Rows(wanted.key, spec.shape[0], spec.shape[1], tensors.address)

    def key_of(self, asked: Encode) -> str | None:
        """Under which the rows of a unit are kept on the node: those of other weights, or computed in another type, are
        other rows, whatever the model is called. None: they are not."""
        if asked.key is None:
            return None
        facts = self._engines[asked.component].facts
        parts = facts.fingerprint, asked.component, facts.dtype, asked.key
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _fetched(self, tensors: TensorClient, wanted: Wanted) -> FetchedUnit:
        asked = wanted.asked
        takes = self._engines[asked.component].facts.takes
        wait_s = max(_SHORTEST_S, wanted.due_s - time.monotonic())
        view = tensors.take(asked.unit.name, asked.unit.source, wait_s=wait_s, consumer=wanted.consumer)
        if view.array.dtype != np.float32:
            raise BadBatchError(f"unit {asked.unit.name} has values of {view.spec.dtype}: float32 is taken")
        unit = EncoderUnit(str(wanted.key), view.array, asked.grid)
        if (why := takes.refusal(unit)) is not None:
            raise BadBatchError(f"unit {asked.unit.name}: {why}")
        # A copy: the slab is not this process's to keep while the unit waits for its turn.
        return FetchedUnit(replace(unit, values=np.array(view.array)), takes.rows_in(unit))

    def give_up(self, wanted: Wanted) -> None:
        """Nobody waits for a unit any more: whoever fetches its values, or waits for room for its rows, is told so. One
        that begins to wait just then does so for as long as it may."""

        def leave(tensors: TensorClient) -> None:
            tensors.leave(wanted.asked.unit.name, wanted.asked.unit.source, wanted.consumer)
            tensors.withdraw(wanted.asked.output)

        with suppress(TransferError):  # there is no such tensor
            self._tensors.use(leave)

    def encode(self, component: str, batch: Sequence[tuple[Wanted, FetchedUnit]]) -> list[EncodedRows | NoRows]:
        """Compute a batch, one answer a unit, in order; for one thread. Raises what keeps the engine from going on."""
        try:
            return list(self._engines[component].encode([fetched.unit for _, fetched in batch]))
        except BadBatchError as error:  # one of them is at fault, which fails neither the others nor the engine
            if len(batch) == 1:
                return [no_rows(batch[0][0].key, error)]
            return [answer for each in batch for answer in self.encode(component, [each])]

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()
        self._tensors.close()

    def put(self, wanted: Wanted, rows: EncodedRows) -> Rows | NoRows:
        """Lay the rows of a unit where they are taken; for any thread but the engine's, since it waits for room, until
        the unit is due."""
        try:
            return self._tensors.use(lambda tensors: _put(tensors, wanted, rows, self.key_of(wanted.asked)))
        except (TransferError, BadBatchError) as error:
            return no_rows(wanted.key, error)


def _put(tensors: TensorClient, wanted: Wanted, rows: EncodedRows, key: str | None) -> Rows:
    """Raises TransferError: StoreFullError where no room comes until the unit is due; BadBatchError where it never
    does, so that no executor with a sidecar like this one is asked again."""
    asked = wanted.asked
    is_late = Event()

    def give_up() -> None:
        is_late.set()
        with suppress(TransferError):  # its sidecar is gone, or it came in at the last moment and is taken already
            tensors.withdraw(asked.output)

    timer = Timer(max(_PATIENCE_S, wanted.due_s - time.monotonic()), give_up)
    timer.daemon = True
    timer.start()
    try:
        tensors.put(asked.output, rows, consumers=asked.consumers, keep_s=asked.keep_s, key=key)
    except StoreFullError as error:
        raise BadBatchError(f"its rows have no room on this node: {error}; nodes need a larger slab") from error
    except BlobGoneError as error:
        if is_late.is_set():
            raise StoreFullError("no room for its rows came in time: those before them are not taken") from error
        raise
    finally:
        timer.cancel()
    return Rows(wanted.key, len(rows), rows.shape[1], tensors.address)


def _are_rows(spec: TensorSpec, width: int) -> bool:
    return not spec.is_stream and spec.dtype == "float32" and len(spec.shape) == 2 and spec.shape[1] == width


def no_rows(key: UnitKey, error: TransferError | BadBatchError) -> NoRows:
    """Say to a gateway what became of a unit: what it can do next follows from the failure."""
    failure = Failure.UNSUPPORTED if isinstance(error, BadBatchError) else failure_of(error)
    return NoRows(key, failure, str(error))
