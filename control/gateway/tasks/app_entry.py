"""An app that is being served: its graph, the process of its code, and the records of its requests."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from control.gateway.api_error import over_capacity, task_failed, unavailable
from control.gateway.media.media_unit import MediaUnits
from control.gateway.model_entry import ModelEntry
from control.gateway.published_app import ServedApp
from control.gateway.tasks.unit_graph import UnitGraph, UnservedPathError, unit_graph
from control.tasks.failure import TaskFailedError
from control.tasks.task_process import TaskProcess
from control.tasks.task_runner import KEPT, TaskRunner
from control.tasks.task_source import TaskSource
from medley_sdk.values import Record, Signature
from policies.routing_table import RoutedModel
from templates_lib.graphs.component import Modality
from templates_lib.graphs.model_graph import GraphError, ModelGraph
from templates_lib.tasks.samples import type_of

T = TypeVar("T")
_log = logging.getLogger(__name__)
_AGAIN_S = 1.0
_MOST_WAITING = 256
"""Requests that wait for the code of an app at once: what takes a second for each would hold up all that come later."""
Key = tuple[Signature, tuple[int, ...]]


class AppEntry:
    """Make it on a running loop."""

    def __init__(self, served: ServedApp, types: Mapping[str, ModelEntry]) -> None:
        """`types`: request type → what serves it, where that is loaded."""
        self.served, self.types = served, types
        task = served.task
        self._process = TaskProcess(TaskSource(task.file, task.text))
        self._runner = TaskRunner(self._process, task.name)
        self._thread = ThreadPoolExecutor(1, "task")  # the process takes one call at a time
        self._graphs: dict[tuple[Signature, str, tuple[tuple[int, ...], ...]], dict[str, UnitGraph]] = {}
        """By signature, model and places of the parts of each kind."""
        self._recording: dict[Key, asyncio.Future[Record]] = {}
        self._waiting = 0
        self._is_closed = False

    @property
    def task_pid(self) -> int | None:
        """Process of the code; None: none runs."""
        return self._process.pid

    @property
    def takes_text(self) -> bool:
        inputs = (kind.partition("-to-")[0].split("-") for kind in self.served.types)
        return any(Modality.TEXT in each for each in inputs)

    def update(self, served: ServedApp, types: Mapping[str, ModelEntry]) -> None:
        """Take a new table, in which the code is the same."""
        self.served, self.types = served, types
        self._graphs.clear()

    def close(self) -> None:
        """End the process, behind the requests that wait for it. Later ones are told to come again."""
        self._is_closed = True
        self._thread.submit(self._process.close)
        self._thread.shutdown(wait=False)

    def model_of(self, kind: str) -> ModelEntry:
        """Raises ApiError 503 for a request type that the plan does not serve."""
        model = self.types.get(kind)
        if model is None:
            known = ", ".join(sorted(self.types)) or "nothing"
            raise unavailable(f"`{self.served.name}` serves no {kind} requests now; it serves {known}")
        return model

    async def graphs(
        self, signature: Signature, routing: RoutedModel, graph: ModelGraph, units: MediaUnits
    ) -> dict[str, UnitGraph]:
        """Route → what requests of the signature ask of executors on it, for the routes of their type. Raises
        ApiError."""
        key = signature, routing.id, tuple(units.of(kind) for kind in Modality)
        if (known := self._graphs.get(key)) is not None:
            return known
        found: dict[str, UnitGraph] = {}
        served = self.served
        why = "no route does"
        for route in routing.routes:
            record = await self._record((signature, served.choices.get(route.id, ())))
            legs = [served.roles[leg.work_class] for leg in route.legs]
            try:
                found[route.id] = unit_graph(graph, record, legs, {kind: units.of(kind) for kind in Modality})
            except (GraphError, UnservedPathError) as error:
                why = str(error)
        if not found:
            raise unavailable(f"`{self.served.name}` serves no {type_of(signature)} requests: {why}")
        if self.served is served:  # else a table came meanwhile, whose routes may be others
            if len(self._graphs) >= KEPT:
                self._graphs.clear()
            self._graphs[key] = found
        return found

    async def answer(self, graph: UnitGraph, text: str) -> Any:
        """What the task answers when its decoder wrote `text`. Raises ApiError."""
        record = graph.record
        values = [text if number == graph.writer else None for number in range(len(record.calls))]
        if record.awaits is None:
            return self._checked(lambda: self._runner.answer(record, values))
        return await self._asked(lambda: self._runner.answer(record, values))

    async def _record(self, key: Key) -> Record:
        """Requests of one signature wait for one run of the code. Raises ApiError."""
        if (known := self._runner.known(*key)) is not None:
            return known
        if (under_way := self._recording.get(key)) is None:
            under_way = self._recording[key] = asyncio.ensure_future(
                self._asked(lambda: self._runner.record(*key), _MOST_WAITING)
            )
            under_way.add_done_callback(lambda done: self._recorded(key, done))
        return await asyncio.shield(under_way)

    def _recorded(self, key: Key, done: asyncio.Future[Record]) -> None:
        del self._recording[key]
        if not done.cancelled():
            done.exception()  # whoever waited has it, or nobody does any more

    async def _asked(self, do: Callable[[], T], most_waiting: int | None = None) -> T:
        """Run it on the thread of the process. `most_waiting`: before it; None: however many, as for an answer, whose
        tokens are paid for. Raises ApiError."""
        if self._is_closed:
            raise unavailable(f"The code of `{self.served.name}` was replaced meanwhile. Send the request again")
        if most_waiting is not None and self._waiting >= most_waiting:
            raise over_capacity(f"{self._waiting} requests wait for the code of `{self.served.name}`", _AGAIN_S)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._checked, do)
        finally:
            self._waiting -= 1

    def _checked(self, do: Callable[[], T]) -> T:
        """Raises ApiError."""
        try:
            return do()
        except (TaskFailedError, ValueError) as error:
            _log.warning("the task of %s failed: %s", self.served.name, error)
            raise task_failed(self.served.name) from None
