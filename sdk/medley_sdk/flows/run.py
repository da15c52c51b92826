"""A run that is executed: its code goes on until all of it waits, and then takes a step."""

import asyncio
import hashlib
from collections.abc import Callable, Generator, Mapping
from typing import Any, NoReturn

from medley_sdk.current import current
from medley_sdk.errors import BudgetError, CallError, TaskError, UncertainCallError, failed_calls
from medley_sdk.flows.calls import Callee
from medley_sdk.flows.loop import FlowLoop
from medley_sdk.flows.messages import (
    MOST_GIVEN_BYTES,
    MOST_RESULT_BYTES,
    Broke,
    Deliver,
    Failure,
    Finished,
    FlowCall,
    Step,
)
from medley_sdk.flows.scope import scope
from medley_sdk.flows.travel import as_type
from medley_sdk.handle import Handle
from medley_sdk.loading import fault_of
from medley_sdk.packing import packed
from medley_sdk.values import AnyRef, ResultRef, UnitTask
from medley_sdk.workflow import Workflow

_ERRORS = {"call": CallError, "uncertain": UncertainCallError, "budget": BudgetError}
MOST_OPTIONS = 64


class FlowRun:
    """`exchange` hands a step on, and returns the outcome that it is answered with."""

    def __init__(self, run_id: str, max_calls: int, exchange: Callable[[Step], Deliver]) -> None:
        self._id, self._max_calls, self._exchange = run_id, max_calls, exchange
        self._made = 0
        self._calls: list[FlowCall] = []
        """Since the last step."""
        self._callees: dict[str, Callee] = {}
        self._waited: dict[str, asyncio.Future[Any]] = {}
        """Call path → what those who await it wait for."""

    def executed(self, flow: Workflow, arguments: Mapping[str, Any], file: str) -> Finished | Broke:
        """Run a workflow to its end. Whatever its code raises comes back as a fault."""
        loop = FlowLoop(self._idle)
        token = current.set(self)
        try:
            answer = loop.run_until_complete(flow(**arguments))
            data, gives = packed(answer, self, MOST_RESULT_BYTES)
            return Finished(self._taken(), data, tuple(ref.path for ref in gives))
        except BaseException as error:
            return Broke(self._taken(), fault_of(error, file), tuple(failed_calls(error)))
        finally:
            current.reset(token)
            asyncio.set_event_loop(None)

    def invoke(self, callee: Callee, *args: Any, **kwargs: Any) -> Handle:
        """Raises TaskError for arguments that do not travel, and for more calls than a run may make."""
        self._made += 1
        if self._made > self._max_calls:
            raise TaskError(
                f"calls more than {self._max_calls} times; does a loop have no end? Raise `max_calls` if not"
            )
        given, takes = packed((args, kwargs), self, MOST_GIVEN_BYTES)
        if any(isinstance(ref, ResultRef) is False for ref in takes):
            raise TaskError(f"{callee}: hands on a part of a request; hand on handles of this run")
        path = scope.get().next()
        self._callees[path] = callee
        self._calls.append(
            FlowCall(
                path,
                callee.kind,
                callee.name,
                given,
                tuple(ref.path for ref in takes),
                callee.effects,
                callee.idempotent,
                callee.timeout_s,
            )
        )
        return Handle(self, ResultRef(path))

    def call(self, unit: UnitTask, *_: Any, **__: Any) -> NoReturn:
        raise TaskError(f"calls unit {unit.name} of {unit.of}: composite tasks do, of one `Request`; "
                        "call the model by the name that it is served under")  # fmt: skip

    def choose(self, options: int) -> int:
        """Return the place of the option that is taken: one of equal chances, drawn by the run's id and the place."""
        if not 1 <= options <= MOST_OPTIONS:
            raise TaskError(f"chooses among {options} options; 1 to {MOST_OPTIONS} are possible")
        drawn = hashlib.sha256(f"{self._id} {scope.get().next()}".encode()).digest()
        return int.from_bytes(drawn[:8], "big") % options

    def wait(self, handle: Handle) -> Generator[Any, Any, Any]:
        """Raises TaskError for a handle of another run, CallError where the call failed."""
        if handle.run is not self or not isinstance(handle.ref, ResultRef):
            raise TaskError(f"awaits {handle!r}; await what this run has called")
        path = handle.ref.path
        if path not in self._waited:
            self._waited[path] = asyncio.get_running_loop().create_future()
        # Shielded: a task that is cancelled takes nothing from others that wait for the same.
        return (yield from asyncio.shield(self._waited[path]).__await__())

    def described(self, ref: AnyRef) -> str:
        if isinstance(ref, ResultRef) and ref.path in self._callees:
            return f"what call {ref.path}, {self._callees[ref.path]}, gives"
        return "a handle of another run"

    def _idle(self) -> None:
        """Take a step: all that can be called has been, and some outcome is needed to go on."""
        awaits = tuple(path for path, future in self._waited.items() if not future.done())
        if not awaits:
            raise TaskError("awaits what no call gives, for ever; await handles, and coroutines that do")
        came = self._exchange(Step(self._taken(), awaits))
        future = self._waited[came.path]
        try:
            future.set_result(self._value(came))
        except Exception as error:
            future.set_exception(error)

    def _value(self, came: Deliver) -> Any:
        callee = self._callees[came.path]
        if came.failure is not None:
            raise _error(came.failure, came.path)
        return as_type(came.value, callee.gives, f"the result of call {came.path}, {callee}")

    def _taken(self) -> tuple[FlowCall, ...]:
        calls, self._calls = tuple(self._calls), []
        return calls


def _error(failure: Failure, path: str) -> CallError:
    error = _ERRORS.get(failure.kind, CallError)(failure.reason)
    error.call = path
    return error
