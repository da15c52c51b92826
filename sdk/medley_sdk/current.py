"""The run that calls right now: one that is recorded for a plan, or one that is executed."""

from collections.abc import Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from medley_sdk.errors import TaskError

if TYPE_CHECKING:
    from medley_sdk.flows.calls import Callee
    from medley_sdk.handle import Handle
    from medley_sdk.values import AnyRef, UnitTask


class Running(Protocol):
    """Either kind of run refuses, with TaskError, what only the other can do."""

    def call(self, unit: "UnitTask", *args: Any, **kwargs: Any) -> "Handle":
        """Call a unit of a model's graph."""

    def invoke(self, callee: "Callee", *args: Any, **kwargs: Any) -> "Handle":
        """Call a model, a service, or what a run itself offers, such as its signals."""

    def choose(self, options: int) -> int:
        """Return the place of the option that is taken."""

    def wait(self, handle: "Handle") -> Generator[Any, Any, Any]:
        """Wait for the value of a handle."""

    def described(self, ref: "AnyRef") -> str:
        """Name what a handle stands for, to people."""


current: ContextVar[Running | None] = ContextVar("current", default=None)


def running() -> Running:
    """Return the run that calls. Raises TaskError outside of one."""
    run = current.get()
    if run is None:
        raise TaskError("calls and choices are made while a workflow runs: move this into one")
    return run
