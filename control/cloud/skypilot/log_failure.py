"""What a node's log says of why the node does not come up."""

import re
from dataclasses import dataclass
from datetime import timedelta

from agents.messages.to_registry import NOT_REGISTERED, REGISTERED
from control.cloud.skypilot.set_up import SET_UP_FAILED

AGENT_ENDED = "node: "
"""Begins the line with which an agent ends that cannot go on (`agents.node`)."""
_FAILED = re.compile(rf"{re.escape(SET_UP_FAILED)} with exit code \d")
_JOB_FAILED = re.compile(r"^ERROR: (Job \d+(?:'s setup)? failed\b.*)$", re.MULTILINE)
"""SkyPilot's own line of a job that failed, be it that its command or set-up was killed and said nothing."""
_PREFIX = re.compile(r"^\([^)]*pid=\d+[^)]*\)\s*")
"""SkyPilot's, before each line of a job."""
_SHOWN_LINES = 5
_SHOWN_CHARS = 600
ASTRAY = timedelta(seconds=20)
"""How long a node is seen not to reach this control plane before it is given up: one that was away itself is found by
then."""
LAST_WORDS = timedelta(seconds=5)
"""The same of a job that failed and has not said why: SkyPilot tells of a failed set-up before it gives the set-up's
last lines time to arrive (`sky.backends.task_codegen`), and on a busy node they take longer."""


@dataclass(frozen=True, slots=True)
class LogFailure:
    text: str
    """Last lines of the log that tell of it."""
    patience: timedelta = timedelta(0)
    """How long it is to be seen before it counts: a later log may tell of none, or tell more."""


def failure_in(log: str) -> LogFailure | None:
    """Return the failure of a log that ends in a failed set-up, in an agent that gave up or broke off, or in one that
    has not reached the control plane; None for any other."""
    lines = _own_lines(log)
    for number, line in enumerate(lines):
        if _FAILED.search(line):
            return LogFailure(_shown(lines[: number + 1]))
    if lines and lines[-1].startswith(AGENT_ENDED):
        return LogFailure(_shown(lines))
    if job := _JOB_FAILED.search(log):
        said = [line for line in lines if not _JOB_FAILED.match(line)]
        return LogFailure(_shown([*said, job[1].strip()]), LAST_WORDS)
    missed = next((line for line in reversed(lines) if NOT_REGISTERED in line or REGISTERED in line), "")
    if NOT_REGISTERED in missed:
        what = "it does not reach the control plane: are its ports open to this node?"
        return LogFailure(f"{what} {_shown([missed])}", ASTRAY)
    return None


def _own_lines(log: str) -> list[str]:
    """Return the lines of the job alone, without SkyPilot's prefix; where no line has one, all."""
    marked = [_PREFIX.sub("", line) for line in log.splitlines() if _PREFIX.match(line)]
    return [line.strip() for line in marked or log.splitlines() if line.strip()]


def _shown(lines: list[str]) -> str:
    return " / ".join(lines[-_SHOWN_LINES:])[-_SHOWN_CHARS:]
