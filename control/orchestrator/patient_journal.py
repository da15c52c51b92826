"""A journal whose database may be away for a while."""

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from control.db.errors import DatabaseUnavailableError, DeposedError
from control.db.run_journal import RunJournal

P = ParamSpec("P")
T = TypeVar("T")

MOST_S = 60.0
"""Time after which a run is left: its lease has run out long before, and others take it once the database is back."""
_MOST_PAUSE_S = 1.0


class PatientJournal:
    """`RunJournal`, whose methods may all be called again: they are, until the database answers. Raises DeposedError
    where it does not for `MOST_S`."""

    def __init__(self, journal: RunJournal) -> None:
        self.calls = patiently(journal.calls)
        self.intend = patiently(journal.intend)
        self.settle = patiently(journal.settle)
        self.take_signal = patiently(journal.take_signal)
        self.park = patiently(journal.park)
        self.end = patiently(journal.end)
        self.hand_back = patiently(journal.hand_back)
        self.blob = patiently(journal.blob)


def patiently(ask: Callable[P, T]) -> Callable[P, T]:
    def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        until_s, pause_s = time.monotonic() + MOST_S, 0.05
        while True:
            try:
                return ask(*args, **kwargs)
            except DatabaseUnavailableError as error:
                if time.monotonic() > until_s:
                    raise DeposedError(f"the journal is away: {error}") from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)

    return asked
