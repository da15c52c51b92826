"""What a node's log says of why the node does not come up."""

import re

from agents.messages.to_registry import NOT_REGISTERED
from control.cloud.skypilot.set_up import SET_UP_FAILED

AGENT_ENDED = "node: "
"""Begins the line with which an agent ends that cannot go on (`agents.node`)."""
_FAILED = re.compile(rf"{re.escape(SET_UP_FAILED)} with exit code \d")
_PREFIX = re.compile(r"^\([^)]*pid=\d+[^)]*\)\s*")
"""SkyPilot's, before each line of a job."""
_SHOWN_LINES = 5
_SHOWN_CHARS = 600


def failure_in(log: str) -> str:
    """Return the last lines of a log that ends in a failed set-up, in an agent that gave up, or in one that has not
    reached the control plane for a while; empty for any other."""
    lines = [line for line in (_PREFIX.sub("", each).strip() for each in log.splitlines()) if line]
    for number, line in enumerate(lines):
        if _FAILED.search(line):
            return _shown(lines[: number + 1])
    if lines and lines[-1].startswith(AGENT_ENDED):
        return _shown(lines)
    if lines and NOT_REGISTERED in lines[-1]:
        what = "it does not reach the control plane: are its ports open to this node?"
        return f"{what} {_shown(lines[-1:])}"
    return ""


def _shown(lines: list[str]) -> str:
    return " / ".join(lines[-_SHOWN_LINES:])[-_SHOWN_CHARS:]
