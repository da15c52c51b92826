"""The next safe moves from what runs now to what is wanted: level-triggered, so that nothing has to be remembered.

Make before break. What is missing is launched, the class that is shortest of capacity first, as far as supply, spending
and back-off allow. An unwanted instance that is ready is drained, the least loaded first, only when the ready capacity
of all its work classes then stays at the lesser of what the plan wants and what is ready now. Where a launch finds no
room beside what is unwanted, and nothing on its way would make some, room is broken free in bounded steps, and the
loss is said. A failed instance is missing, hence replaced at once; only drains count as disruption.
"""

from collections.abc import Sequence
from datetime import datetime

from control.diff.limits import ChangeLimits, Past
from control.diff.moves import MoveSet
from control.diff.round import Round
from control.diff.running import Running
from control.diff.supply import Supply
from control.diff.target import Target


def next_moves(
    wanted: Sequence[Target],
    running: Sequence[Running],
    supply: Supply,
    limits: ChangeLimits,
    past: Past,
    now: datetime,
) -> MoveSet:
    """Return the moves to make at `now` (timezone-aware), all at once; call it again whenever something has changed.

    `running`: every instance of the fleet that is not terminated. Empty moves say that the fleet is as wanted.
    """
    decided = Round(wanted, running, supply, limits, past, now)
    decided.launch()
    decided.drain()
    decided.make_room()
    return decided.moves()
