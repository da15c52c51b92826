"""What runs of many workflows call next, within a bound: who learns for months has no memory for all of them."""

from collections import OrderedDict, deque
from collections.abc import Sequence

from policies.workflows.call_table import MOST_CALLS, CallTable

MOST_RUNS = 200
"""Runs of a workflow that its table is of, those that were learned last."""
MOST_LEARNED = 50_000
"""Calls of all these runs together; a run without calls counts as one. A call has three keys in its table: some 1.1 KiB
where all names differ."""


class LearnedRuns:
    def __init__(self, most_runs: int = MOST_RUNS, most_learned: int = MOST_LEARNED) -> None:
        self._most_runs, self._most_learned = most_runs, most_learned
        self._runs: OrderedDict[str, deque[tuple[str, ...]]] = OrderedDict()
        """Workflow → its runs; first those of the one that was used least recently."""
        self._tables: dict[str, CallTable] = {}
        self.learned = 0
        """Calls that are known."""

    def knows(self, app: str) -> bool:
        return app in self._tables

    def table(self, app: str) -> CallTable:
        """Return the table of a workflow that is known."""
        self._runs.move_to_end(app)
        return self._tables[app]

    def learn(self, app: str, made: Sequence[str]) -> None:
        """Count the calls of a run that has ended, the first `MOST_CALLS` of it, and forget the oldest beyond the
        bounds: of this workflow, then of those that were used least recently."""
        run = tuple(made[:MOST_CALLS])
        self._runs.setdefault(app, deque()).append(run)
        self._tables.setdefault(app, CallTable()).learn(run)
        self._runs.move_to_end(app)
        self.learned += _size(run)
        while len(self._runs[app]) > self._most_runs:
            self._forget_oldest(app)
        # The run that was learned now stays, also where it is larger than all that may be.
        while self.learned > self._most_learned and self.learned > _size(run):
            self._forget_oldest(next(iter(self._runs)))

    def _forget_oldest(self, app: str) -> None:
        run = self._runs[app].popleft()
        self._tables[app].forget(run)
        self.learned -= _size(run)
        if not self._runs[app]:
            del self._runs[app], self._tables[app]


def _size(run: Sequence[str]) -> int:
    return max(1, len(run))
