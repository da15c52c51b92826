"""What is on record of a run and of its calls."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from control.runs.run_state import RunState
from medley_sdk.flows.messages import Failure, FlowCall

INLINE_BYTES = 1 << 20
"""Results above this are stored as blobs, apart from the calls."""


class CallState(StrEnum):
    OPEN = "open"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CallRecord:
    call: FlowCall
    made_at: datetime
    made_after: int = 0
    """Outcomes that its run had on record when it was made: what it may depend on."""
    due_at: datetime | None = None
    """End of a sleep, or of the wait for a signal."""
    started_at: datetime | None = None
    """None: it certainly was not started."""
    state: CallState = CallState.OPEN
    seq: int = 0
    """Place of its outcome among those of the run, from 1; 0: it has none."""
    value: bytes = b""
    blob: bytes = b""
    """SHA-256 of its result, where that is stored apart."""
    failure: Failure | None = None
    ended_at: datetime | None = None
    usd: float = 0.0
    caught: bool = False
    """It failed, and the code of its run, which has failed for another reason, went on without its result."""


def path_order(path: str) -> tuple[int, ...]:
    """Sort call paths as code makes calls: by number, not by digit."""
    return tuple(int(part) for part in path.split("."))


@dataclass(frozen=True, slots=True)
class RunRecord:
    id: str
    project: str
    workflow: str
    version: str
    """Id of the code that it runs, to its end."""
    arguments: dict[str, Any]
    state: RunState
    created_at: datetime
    durable: bool
    max_calls: int
    max_usd: float | None = None
    deadline_at: datetime | None = None
    reason: str = ""
    """Why it ended other than done, or was taken again."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    wake_at: datetime | None = None
    holder: str = ""
    epoch: int = 0
    """+1 whenever it is taken: who holds an older one writes nothing."""
    restarts: int = 0
    """Times that it was taken again since something came of it last."""
    cancel_asked: bool = False
    usd: float = 0.0
    created_by: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a call, as it is recorded."""

    path: str
    seq: int
    value: bytes = b""
    failure: Failure | None = None
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class AppVersion:
    id: str
    project: str
    file: str
    source: str = field(repr=False)
    pushed_at: datetime
    pushed_by: str
