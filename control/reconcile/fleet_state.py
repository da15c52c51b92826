"""State of a fleet in the reconcile loop, and when the fleet is planned next. All of it can be read or made again."""

import math
from dataclasses import dataclass, field
from datetime import datetime

from control.lifecycle.fleet import FleetRecord, FleetTarget
from control.planning.world import World
from control.reconcile.fleet_planner import Solved
from templates_lib.values.plan import Plan

_AGAIN_S = 2.0
"""Between the starts of two solves of a fleet, whatever asks for them."""
_LOOK_AGAIN_S = 60.0
"""The same, where nothing has happened but that an offer may be asked again."""


@dataclass(slots=True)
class FleetState:
    record: FleetRecord
    target: FleetTarget
    wanted_s: float
    """Monotonic time at which it is to be planned next, so that a clock that jumps neither hurries nor delays it."""
    began_s: float = -math.inf
    """Monotonic time at which it was planned last."""
    looked_s: float = -math.inf
    """Monotonic time at which it was last looked at for a burst."""
    why: str = "the control plane has started"
    solved: Solved | None = None
    ordered: tuple[str, int, int] = ("", 0, 0)
    """Plan, version of the spec and number of the solve that its order was made of."""
    solves: int = 0
    trouble: str = ""
    """Why it cannot be planned or run now; empty: it can."""
    to_publish: tuple[World, Plan] | None = None
    """World and plan that gateways do not know of yet."""
    missed: set[str] = field(default_factory=set)
    """Keys of offers that it was refused, or that were taken from it, and has not rented from since."""

    @property
    def due_s(self) -> float:
        """Return the monotonic time at which it may be planned next."""
        return max(self.wanted_s, self.began_s + _AGAIN_S)

    @property
    def turn_s(self) -> float:
        """Return the monotonic time of its next turn, had nobody asked for an earlier one."""
        return self.began_s + 60 * (1.0 if self.solved is None else self.solved.world.fleet.reconcile.replan_minutes)

    def wake(self, now_s: float, why: str) -> None:
        """Have it planned as soon as may be."""
        if self.wanted_s > now_s:
            self.wanted_s, self.why = now_s, why

    def begin(self, now_s: float) -> None:
        """Take note that a solve has begun."""
        self.began_s = now_s
        self.wanted_s, self.why = self.turn_s, "it is time"

    def take(self, solved: Solved, now: datetime, now_s: float) -> None:
        """Take what was solved. Plan once more when an offer that was refused may be asked again: what is rented in its
        place costs more with every minute."""
        is_on_time = self.wanted_s == self.turn_s
        self.solved, self.solves = solved, self.solves + 1
        if is_on_time:  # nobody has asked for another one; how often it is planned is known only now
            self.wanted_s = self.turn_s
        until = [at for key, at in solved.world.quotes.avoided_until.items() if key in self.missed]
        if until:
            due_s = max(now_s + (min(until) - now).total_seconds(), self.began_s + _LOOK_AGAIN_S)
            if due_s < self.wanted_s:
                self.wanted_s, self.why = due_s, "an offer that was refused may be asked again"
