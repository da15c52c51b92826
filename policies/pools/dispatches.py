"""Named ways to dispatch requests over pools by stage: a part of what their capacity is certified under."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolDispatch:
    name: str
    turn: str
    """Of `policies.pools.turns.TURNS`: the order at text instances."""
    by_load: bool
    """Whether encoders and text instances are chosen by least pending work, with the parts of a picture spread, and
    encoders interleave requests; else each picture goes to the next encoder in turn."""
    late: bool
    """Whether the text instance is chosen when all rows of a request are there, and pulls them (4.3); else when it
    comes."""


LATE_PULL = "late-pull-v1"
DISPATCHES = {
    each.name: each
    for each in (
        PoolDispatch("static-fcfs", "fcfs", by_load=False, late=False),
        PoolDispatch("static-slack", "slack", by_load=False, late=False),
        PoolDispatch(LATE_PULL, "slack", by_load=True, late=True),
    )
}
"""The first two are the paper's Decoupled and Sched (5.1), for comparison."""
