"""Call paths: where in a run a call is made, whatever ends first.

Each asyncio task of a run numbers what it does, its calls and the tasks that it makes, in one count. A call path is the
number of the call behind those of the tasks that led to it: `2.3` is the third thing that the second thing of the run,
a task, has done. The count of a task goes by its code alone, so that a run that is executed again finds the same paths.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any


class Scope:
    __slots__ = ("_count", "_prefix")

    def __init__(self, prefix: str = "") -> None:
        self._prefix, self._count = prefix, 0

    def next(self) -> str:
        """Return the path of what is done next."""
        self._count += 1
        return f"{self._prefix}{self._count}"


scope: ContextVar[Scope] = ContextVar("scope")


def task_of_scope(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], context: Context | None = None
) -> "asyncio.Task[Any]":
    """Make a task with a count of its own (a task factory of asyncio)."""
    within = copy_context() if context is None else context
    made_by = scope.get(None)
    within.run(scope.set, Scope() if made_by is None else Scope(f"{made_by.next()}."))
    return asyncio.Task(coroutine, loop=loop, context=within)
