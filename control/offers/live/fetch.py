"""Ask all clouds at once; one that fails, or takes too long, costs nobody else anything."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from queue import Empty, SimpleQueue
from threading import Thread

from control.offers.live.source import LiveAnswer, LiveSource, NoAnswerError, SourceError
from templates_lib.values.install_hint import install_hint


@dataclass(frozen=True, slots=True)
class Fetched:
    cloud: str
    source: str
    result: LiveAnswer | SourceError


def fetch_all(sources: Iterable[LiveSource], now: datetime, time_out_s: float) -> tuple[Fetched, ...]:
    """Fetch the answer of each source within `time_out_s`, in the order given."""
    listed = tuple(sources)
    results: SimpleQueue[tuple[int, LiveAnswer | SourceError]] = SimpleQueue()
    for number, source in enumerate(listed):
        # A thread that hangs in a vendor's library must not keep the process from ending.
        Thread(target=_ask, args=(number, source, now, results), name=source.name, daemon=True).start()
    until = time.monotonic() + time_out_s
    said: dict[int, LiveAnswer | SourceError] = {}
    while len(said) < len(listed):
        try:
            number, result = results.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            break
        said[number] = result
    late = NoAnswerError(f"no answer within {time_out_s:g} s")
    return tuple(Fetched(each.cloud, each.name, said.get(number, late)) for number, each in enumerate(listed))


def _ask(
    number: int, source: LiveSource, now: datetime, results: "SimpleQueue[tuple[int, LiveAnswer | SourceError]]"
) -> None:
    result: LiveAnswer | SourceError
    try:
        result = source.fetch(now)
    except SourceError as error:
        result = error
    except ImportError as error:
        result = NoAnswerError(f"{error}: {install_hint('clouds')}")
    except Exception as error:  # of a vendor's library, or a mistake of ours: the other clouds go on
        result = NoAnswerError(f"unexpected {type(error).__name__}: {error}")
    results.put((number, result))
