"""The event loop of a run. Nothing from outside wakes it: when its code can go no further, the run takes a step."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, NoReturn

from medley_sdk.errors import TaskError
from medley_sdk.flows.scope import task_of_scope


class _Idle(selectors.SelectSelector):
    """asyncio asks it what has come from outside. Asked to wait, it says that the code of the run is idle."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        super().__init__()
        self._on_idle = on_idle

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None or timeout > 0:
            self._on_idle()
        return []


class FlowLoop(asyncio.SelectorEventLoop):
    """`on_idle` has to let some future go on, or raise. Timers and threads, which no replay would meet at the same
    place again, raise TaskError."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        super().__init__(_Idle(on_idle))
        self.set_task_factory(task_of_scope)  # type: ignore[arg-type]  # typeshed has its `context` otherwise

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TaskError(
            "timers and threads of asyncio are not the same when a run is executed again: wait with `medley.sleep`, "
            "bound waits with `timeout_s`, and compute in a service"
        )

    call_later = call_at = run_in_executor = create_connection = create_server = _refuse  # type: ignore[assignment]
