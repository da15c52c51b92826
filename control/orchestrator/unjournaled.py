"""A run that is not durable: nothing of its calls is recorded."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from control.db.run_journal import RunJournal
from control.runs.record import CallRecord, RunRecord, Settled


@dataclass(frozen=True, slots=True)
class UnjournaledRun(RunJournal):
    """What the holder of such a run writes: its end. Signals reach it all the same."""

    def calls(self, run: RunRecord) -> list[CallRecord]:  # noqa: ARG002
        return []

    def intend(self, run: RunRecord, records: Sequence[CallRecord], started: Sequence[str], now: datetime) -> None:
        pass

    def settle(self, run: RunRecord, settled: Settled, now: datetime) -> None:
        pass

    def park(self, run: RunRecord, names: Collection[str], wake_at: datetime | None) -> bool:  # noqa: ARG002
        return False
