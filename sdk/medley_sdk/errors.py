"""Errors that the author of a task or of a workflow sees."""

from collections.abc import Iterator


class TaskError(Exception):
    """The code cannot be served as it is written: the message says what to change."""


class NonDeterminismError(TaskError):
    """A run does not call what its record says."""


class CallError(Exception):
    """A call of a model or service failed; the message says of which, and why."""

    call = ""
    """Path of the call in its run, as `medley runs show` lists it."""


class UncertainCallError(CallError):
    """A call with an external effect was started, and nobody knows what became of it: it is not started again."""


class BudgetError(CallError):
    """The call would have cost more than what is left of the run's `max_usd`; it was not started."""


def failed_calls(error: BaseException) -> Iterator[str]:
    """Yield the paths of the failed calls that an error comes from: those that it is or has in its group, else those of
    the error that was handled when it was raised."""
    left, seen = [error], set[int]()
    while left:
        found = left.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, CallError) and found.call:
            yield found.call  # what was handled before it, such as the failure of another way, is no cause of it
        elif isinstance(found, BaseExceptionGroup):
            left += found.exceptions
        else:
            before = found.__cause__ if found.__suppress_context__ else found.__context__
            left += [] if before is None else [before]
