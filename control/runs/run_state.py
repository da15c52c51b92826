"""The life of a run."""

from enum import StrEnum


class RunState(StrEnum):
    QUEUED = "queued"
    """Some orchestrator has to take it."""
    RUNNING = "running"
    """One holds it, by a lease. When that has run out, another takes it."""
    WAITING = "waiting"
    """It only waits for a time or a signal: nobody holds it, and no process runs its code."""
    DONE = "done"
    FAILED = "failed"
    """Its code raised, or is not what the record says."""
    UNCERTAIN = "uncertain"
    """A call with an external effect was started, nobody knows what became of it, and its code does not say what to do
    then: an operator has to."""
    OVER_BUDGET = "over_budget"
    """Its next call would have exceeded `max_usd`."""
    EXPIRED = "expired"
    """Its deadline has passed."""
    CANCELLED = "cancelled"


OPEN = (RunState.QUEUED, RunState.RUNNING, RunState.WAITING)
RESUMABLE = (RunState.FAILED, RunState.UNCERTAIN, RunState.OVER_BUDGET)
"""What failed in it is forgotten, and it goes on from there."""

NEXT: dict[RunState, tuple[RunState, ...]] = {
    RunState.QUEUED: (
        RunState.RUNNING,  # an orchestrator has taken it
        RunState.CANCELLED,  # before anybody took it
    ),
    RunState.RUNNING: (
        RunState.RUNNING,  # another orchestrator took it when the lease had run out
        RunState.QUEUED,  # its orchestrator ends, and hands it back
        RunState.WAITING,  # only a time or a signal is needed to go on
        RunState.DONE, RunState.FAILED, RunState.UNCERTAIN, RunState.OVER_BUDGET, RunState.EXPIRED, RunState.CANCELLED,
    ),
    RunState.WAITING: (
        RunState.RUNNING,  # the time has come, or a signal
        RunState.CANCELLED,
    ),
    RunState.FAILED: (RunState.QUEUED,),  # `medley runs resume`
    RunState.UNCERTAIN: (RunState.QUEUED,),  # the same, with what became of the call
    RunState.OVER_BUDGET: (RunState.QUEUED,),  # the same, with more of it
    RunState.DONE: (),
    RunState.EXPIRED: (),
    RunState.CANCELLED: (),
}  # fmt: skip
