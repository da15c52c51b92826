"""Record and replay (Cornserve, section 5.2): a run until it ends or waits, and the same again with values."""

from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any

from medley_sdk.current import current
from medley_sdk.errors import NonDeterminismError, TaskError
from medley_sdk.handle import Handle
from medley_sdk.run import Run
from medley_sdk.values import CallRef, Record, Signature
from medley_sdk.workflow import Workflow

MOST_BRANCHES = 64


def recorded(flow: Workflow, signature: Signature, choices: Sequence[int] = ()) -> Record:
    """Return what a run calls until it ends or awaits a value. Raises TaskError, and what the code raises."""
    return _run(flow, Run(signature, choices))


def branches(flow: Workflow, signature: Signature) -> Iterator[Record]:
    """Yield a record for each way through the choices of the code. Raises TaskError where they are too many."""
    choices: list[int] = []
    for _ in range(MOST_BRANCHES):
        record = recorded(flow, signature, choices)
        yield record
        choices = [choice.taken for choice in record.choices]
        while choices and choices[-1] + 1 == record.choices[len(choices) - 1].options:
            choices.pop()
        if not choices:
            return
        choices[-1] += 1
    raise TaskError(f"its choices have more than {MOST_BRANCHES} ways; leave some out")


def replayed(flow: Workflow, record: Record, values: Sequence[Any]) -> Record:
    """Return the record of the run that ends, where `record` awaits: the code runs again with `values`, one of each
    call. Raises NonDeterminismError where it calls or chooses another thing, or more, and what the code raises."""
    again = _run(flow, Run(record.signature, [choice.taken for choice in record.choices], values))
    for number, (call, before) in enumerate(zip(again.calls, record.calls, strict=False)):
        if call != before:
            name, known = call.unit.name, before.unit.name
            what = f"with other arguments than before ({name})" if name == known else f"to {name}, before to {known}"
            raise NonDeterminismError(f"call {number} is {what}: the same request must lead to the same calls")
    if len(again.calls) > len(record.calls):
        more = again.calls[len(record.calls)].unit.name
        raise NonDeterminismError(f"calls {more} after it awaits a value; call all units before the first await")
    if len(again.calls) < len(record.calls) or again.choices != record.choices or again.awaits is not None:
        raise NonDeterminismError("the same request led to fewer calls, or to other choices, than before")
    return again


def _run(flow: Workflow, run: Run) -> Record:
    token = current.set(run)
    coroutine = flow(run.request)
    try:
        waited = coroutine.send(None)
    except StopIteration as end:
        return run.ended(end.value)
    finally:
        current.reset(token)
        _close(coroutine)
    if not isinstance(waited, Handle) or not isinstance(waited.ref, CallRef):
        raise TaskError("awaits what no unit gave; a task may await handles alone, no sleep, socket or thread")
    return run.waits(waited.ref.call)


def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    """End it, whatever the code does on its way out: its calls are recorded already."""
    with suppress(BaseException):
        coroutine.close()
