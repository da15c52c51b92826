"""What other components have made of a stage's runs: taken through the node's tensor sidecar, and given to the engine
with the steps that need it."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec
import torch

from agents.engines.given_rows import NOTHING_GIVEN, EmbeddedRows, EncodedRows, GivenRows
from agents.engines.grid_positions import GridSpan
from agents.engines.stage_facts import StageFacts
from agents.messages.component_work import PromptRows
from agents.messages.to_gateway import Failure
from agents.messages.to_stage import GiveRows, StageEntry
from agents.messages.to_stage_scheduler import RowsHere, RowsMissing
from agents.tensors.client import TensorClient
from agents.tensors.failures import failure_of
from agents.tensors.node_tensors import NodeTensors
from agents.transfer.errors import BadPieceError, TransferError

_log = logging.getLogger(__name__)
_TAKING = 16
"""Runs at once whose rows are taken. The others wait their turn."""

Report = Callable[[msgspec.Struct], None]


@dataclass(slots=True)
class _Given:
    grids: tuple[GridSpan, ...]
    embedded: list[tuple[int, torch.Tensor]] = field(default_factory=list)
    """(first token, rows) that no step has computed whole yet."""
    encoded: torch.Tensor | None = None
    """Until the first step of the run, which keeps their keys and values."""


class GivenToRuns:
    """Takes rows on threads of its own. The engine's thread asks for those of a step, and forgets runs that are over;
    what comes for one of these is dropped."""

    def __init__(self, facts: StageFacts, tensors: NodeTensors | None, report: Report) -> None:
        """`tensors`: of the node's sidecar; None: there is none. `report`: for any thread."""
        self._facts, self._tensors, self._report = facts, tensors, report
        self._changing = threading.Lock()
        self._runs: dict[int, _Given] = {}
        self._takers = ThreadPoolExecutor(_TAKING, "rows")

    @property
    def can_take(self) -> bool:
        """Whether runs may come with rows: the engine knows them, and those that this stage needs can be taken."""
        needs_some = self._facts.held.first or self._facts.encoded_tokens > 0
        return self._facts.takes_rows and (self._tensors is not None or not needs_some)

    def give(self, told: GiveRows) -> None:
        """Note where images of a run lie, and have its rows taken: of that comes `RowsHere` or `RowsMissing`."""
        with self._changing:
            self._runs[told.run] = _Given(
                tuple(_span(each.first_token, each.grid, each.frame_step) for each in told.grids)
            )
        if told.wanted:
            self._takers.submit(self._take, told)

    def grids(self, run: int) -> tuple[GridSpan, ...]:
        given = self._runs.get(run)
        return () if given is None else given.grids

    def of_step(self, entries: Sequence[StageEntry]) -> GivenRows:
        """Return the rows of a step, and forget those that no later step needs."""
        if not self._runs:
            return NOTHING_GIVEN
        embedded: list[EmbeddedRows] = []
        encoded: list[EncodedRows] = []
        with self._changing:
            for entry in entries:
                given = self._runs.get(entry.run)
                if given is None:
                    continue
                if given.encoded is not None:
                    encoded.append(EncodedRows(str(entry.run), given.encoded))
                    given.encoded = None
                embedded += _cut(entry, given.embedded)
                end = entry.position + entry.tokens
                given.embedded = [(first, rows) for first, rows in given.embedded if first + len(rows) > end]
        return GivenRows(tuple(embedded), tuple(encoded))

    def forget(self, run: int) -> None:
        with self._changing:
            self._runs.pop(run, None)

    def close(self) -> None:
        self._takers.shutdown(wait=False, cancel_futures=True)
        if self._tensors is not None:
            self._tensors.close()

    def _take(self, told: GiveRows) -> None:
        if told.run not in self._runs:
            return  # it was over before its turn came
        try:
            taken = [(each.position, self._rows(each, told)) for each in told.wanted]
        except TransferError as error:
            self._report(RowsMissing(told.run, failure_of(error), str(error)[:1000]))
            return
        except Exception as error:  # of one request: it does not cost the others their instance
            _log.exception("rows of run %d cannot be taken", told.run)
            self._report(RowsMissing(told.run, Failure.HAND_OFF, f"{type(error).__name__}: {error}"[:1000]))
            return
        with self._changing:
            given = self._runs.get(told.run)
            if given is None:
                return
            given.embedded = [(position, rows) for position, rows in taken if position is not None]
            given.encoded = next((rows for position, rows in taken if position is None), None)
        self._report(RowsHere(told.run))

    def _rows(self, each: PromptRows, told: GiveRows) -> torch.Tensor:
        """(rows, width) in the engine's data type, in memory of this process: the slab is others' to use meanwhile.
        Raises TransferError, BadPieceError for what the engine would not compute with."""
        if self._tensors is None:
            raise BadPieceError("this stage has no tensor sidecar to take rows with")

        def copied(tensors: TensorClient) -> torch.Tensor:
            at = each.tensor
            view = tensors.take(at.name, at.source, consumers=told.takers, wait_s=told.wait_s)
            width = self._facts.hidden_size if each.position is not None else self._facts.encoded_width
            if view.spec.dtype != "float32" or view.spec.shape != (each.rows, width):
                raise BadPieceError(
                    f"rows {at.name} are {view.spec.dtype} {view.spec.shape}, not float32 {(each.rows, width)}"
                )
            return view.torch().to(self._facts.dtype, copy=True)

        rows = self._tensors.use(copied)
        if not torch.isfinite(rows).all():
            raise BadPieceError(f"rows {each.tensor.name} have numbers that are not finite")
        return rows


def _span(first_token: int, grid: tuple[int, int, int], frame_step: float) -> GridSpan:
    return GridSpan(first_token, *grid, frame_step)


def _cut(entry: StageEntry, embedded: Sequence[tuple[int, torch.Tensor]]) -> list[EmbeddedRows]:
    """The rows of a run's tokens in a step: who cuts its prompt within an image cuts that's rows, too."""
    end, found = entry.position + entry.tokens, []
    for first, rows in embedded:
        start, stop = max(first, entry.position), min(first + len(rows), end)
        if start < stop:
            found.append(EmbeddedRows(str(entry.run), start, rows[start - first : stop - first]))
    return found
