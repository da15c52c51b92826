"""Whose turn it is at an encoder or at a text instance (ModServe, section 4.3): first come first served, or by slack,
short first.

A turn is a time that is found once, when the work comes; the least is next. Whatever is asked for after somebody's turn
comes behind it, so nobody starves, however many short requests follow.
"""

from collections.abc import Callable
from dataclasses import dataclass

AGEING = 4.0
"""Work of a second may be passed by shorter work for so many seconds. Less helps the mean less, more costs the longest
requests more (`python -m bench.modserve loads`)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Work that waits, in seconds."""

    asked_s: float
    """When its client asked."""
    came_s: float
    """When it came here: of a prompt with pictures, when their rows were there."""
    work_s: float
    """How long it takes alone."""
    due_s: float
    """How long after `asked_s` its client wants the first token (`Slo.ttft_ms`)."""


def first_come(waiting: Waiting) -> float:
    """`fcfs`: by when it came here."""
    return waiting.came_s


def by_slack(waiting: Waiting) -> float:
    """`slack`: a short one soon after its client asked; a long one later, but when it has to begin to be in time. One
    that cannot be in time any more goes before nobody who can. What has waited elsewhere, for its pictures to be
    encoded, has waited."""
    passed_s, slack_s = AGEING * waiting.work_s, waiting.due_s - waiting.work_s
    return waiting.asked_s + (min(passed_s, slack_s) if slack_s >= 0 else passed_s)


Turn = Callable[[Waiting], float]
TURNS: dict[str, Turn] = {"fcfs": first_come, "slack": by_slack}
"""Name → turn of what waits."""


def interleaved(came_s: float, before_s: float) -> float:
    """Turn of a part of a request at an encoder that has `before_s` of work of the same request: pictures of others
    that come while those are computed go before it (as chunks of prompts do among each other)."""
    return came_s + before_s
