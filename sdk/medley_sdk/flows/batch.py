"""A batch of calls of one service."""

from dataclasses import dataclass
from typing import Any

import msgspec

from medley_sdk.errors import TaskError
from medley_sdk.flows.calls import CallName
from medley_sdk.flows.messages import MOST_RESULT_BYTES, Outcome
from medley_sdk.flows.service import Service
from medley_sdk.flows.travel import as_type
from medley_sdk.loading import fault_of


@dataclass(frozen=True, slots=True)
class Given:
    """One call of a batch."""

    call: str
    """Its id."""
    arguments: bytes
    """Positional ones and those with names, as MessagePack, without slots."""


def computed(service: Service, loaded: Any, batch: list[Given], file: str = "") -> list[Outcome]:
    """Compute a batch with an instance of a service's class, and return an outcome for each of its calls. One whose
    arguments are of another type fails alone; where the code raises, or gives another number of results, all do: it may
    have changed something outside before it raised."""
    given = [_arguments(service, each) for each in batch]
    good = [(each, arguments) for each, arguments in zip(batch, given, strict=True) if not isinstance(arguments, str)]
    try:
        results = iter(_results(service, loaded, good) if good else [])
    except BaseException as error:
        reason = fault_of(error, file).reason
        return [_refused(each) if isinstance(each, str) else Outcome(failure=reason) for each in given]
    return [_refused(each) if isinstance(each, str) else _outcome(next(results)) for each in given]


def _refused(why: str) -> Outcome:
    return Outcome(failure=why, begun=False)


def _arguments(service: Service, given: Given) -> dict[str, Any] | str:
    """Return the arguments of a call by their types, or what is wrong with them."""
    try:
        _, named = msgspec.msgpack.decode(given.arguments, type=tuple[list[Any], dict[str, msgspec.Raw]])
        return {
            name: as_type(bytes(named[name]), kind, f"parameter {name}") for name, kind in service.item_types.items()
        }
    except (TaskError, msgspec.DecodeError, LookupError) as error:
        return f"is given another thing than it takes: {error}"


def _results(service: Service, loaded: Any, good: list[tuple[Given, dict[str, Any]]]) -> list[Any]:
    """Raises TaskError for other than one result a call, and whatever the code raises."""
    batch: dict[str, Any] = {name: [arguments[name] for _, arguments in good] for name in service.item_types}
    if service.takes_names:
        batch[service.takes_names] = [CallName(given.call) for given, _ in good]
    results = loaded(**batch)
    if not isinstance(results, list) or len(results) != len(good):
        what = f"{len(results)} results" if isinstance(results, list) else f"a {type(results).__name__}, no list"
        raise TaskError(f"service {service.info.name} returned {what} for {len(good)} calls; return one for each")
    return results


def _outcome(result: Any) -> Outcome:
    try:
        data = msgspec.msgpack.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return Outcome(failure=f"its result does not travel: {error}")
    if len(data) > MOST_RESULT_BYTES:
        return Outcome(failure=f"its result has {len(data)} bytes; {MOST_RESULT_BYTES} are the most")
    return Outcome(data)
