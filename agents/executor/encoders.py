"""The engines of an executor with the tensors of its node: units in, rows out. Used by two threads, as each method
says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import numpy as np

from agents.engines.components.protocol import EncoderEngine
from agents.engines.components.protocol import Rows as EncodedRows
from agents.engines.components.unit import EncoderUnit
from agents.engines.errors import BadBatchError
from agents.executor.exchange import Loaded, NoRows, Rows, UnitKey, Wanted
from agents.executor.queue import BatchLimits
from agents.messages.to_gateway import Failure
from agents.tensors.client import TensorClient
from agents.transfer.errors import BadPieceError, LinkLostError, StoreFullError, TransferError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class FetchedUnit:
    unit: EncoderUnit
    rows: int
    """That it is in a batch."""


class Encoders:
    def __init__(self, engines: Mapping[str, EncoderEngine], sidecar: str, process: str) -> None:
        """`sidecar`: its name on this node. `process`: whose quota of it this is. Raises LinkLostError."""
        self._engines, self._sidecar, self._process = dict(engines), sidecar, process
        self._turn = Lock()
        self._tensors = TensorClient(sidecar, process)

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

        return self._with_tensors(bring)

    def _kept(self, tensors: TensorClient, wanted: Wanted) -> Rows | None:
        asked = wanted.asked
        if asked.key is None:
            return None
        spec = tensors.adopt(asked.output, asked.key, consumers=asked.consumers, keep_s=asked.keep_s)
        return None if spec is None else Rows(wanted.key, spec.shape[0], spec.shape[1], tensors.address)

    def _fetched(self, tensors: TensorClient, wanted: Wanted) -> FetchedUnit:
        asked = wanted.asked
        takes = self._engines[asked.component].facts.takes
        view = tensors.take(asked.unit.name, asked.unit.source, wait_s=asked.timeout_s)
        if view.array.dtype != np.float32:
            raise BadBatchError(f"unit {asked.unit.name} has values of {view.spec.dtype}: float32 is taken")
        # A copy: the slab is not this process's to keep while the unit waits for its turn.
        unit = EncoderUnit(str(wanted.key), np.array(view.array), asked.grid)
        if (why := takes.refusal(unit)) is not None:
            raise BadBatchError(f"unit {asked.unit.name}: {why}")
        return FetchedUnit(unit, takes.rows_in(unit))

    def encode(self, component: str, batch: Sequence[tuple[Wanted, FetchedUnit]]) -> list[Rows | NoRows]:
        """Compute a batch and put its rows, one answer a unit, in order; for one thread. Raises what keeps the engine
        from going on."""
        try:
            made = self._engines[component].encode([fetched.unit for _, fetched in batch])
        except BadBatchError as error:  # one of them is at fault, which fails neither the others nor the engine
            if len(batch) == 1:
                return [no_rows(batch[0][0].key, error)]
            return [answer for each in batch for answer in self.encode(component, [each])]
        return [self._put(wanted, rows) for (wanted, _), rows in zip(batch, made, strict=True)]

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()
        self._tensors.close()

    def _put(self, wanted: Wanted, rows: EncodedRows) -> Rows | NoRows:
        asked = wanted.asked

        def put(tensors: TensorClient) -> Rows:
            tensors.put(asked.output, rows, consumers=asked.consumers, keep_s=asked.keep_s, key=asked.key)
            return Rows(wanted.key, len(rows), rows.shape[1], tensors.address)

        try:
            return self._with_tensors(put)
        except TransferError as error:
            return no_rows(wanted.key, error)

    def _with_tensors(self, do: Callable[[TensorClient], T]) -> T:
        """Do something with the node's sidecar, and once more where that was lost: it is started again, and though what
        lay there is gone, what was asked for may come yet. Raises TransferError."""
        tensors = self._tensors
        try:
            return do(tensors)
        except LinkLostError:
            return do(self._renewed(tensors))

    def _renewed(self, lost: TensorClient) -> TensorClient:
        """Raises LinkLostError while there is none."""
        with self._turn:
            if self._tensors is lost:
                self._tensors = TensorClient(self._sidecar, self._process)
                lost.close()
            return self._tensors


def no_rows(key: UnitKey, error: TransferError | BadBatchError) -> NoRows:
    """Say to a gateway what became of a unit: what it can do next follows from the failure."""
    match error:
        case BadBatchError() | BadPieceError():
            failure = Failure.UNSUPPORTED
        case StoreFullError():
            failure = Failure.OVERLOADED
        case LinkLostError():
            failure = Failure.ENGINE
        case _:  # it is to be made again
            failure = Failure.HAND_OFF
    return NoRows(key, failure, str(error))
