"""Steps by which a fleet gives things up, one after the other, when its budget does not pay for all it was asked for.

A ladder: spot for all that may run on it, then a looser class of service, and only then less demand, the least
important first. Each rung keeps what those before it gave up. A rung is gone to when the plan of the one before was
solved and costs too much; nothing that runs is touched by that: the plan that is taken is reached as any other is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from policies.budget import Allowance

EASE = 0.05
"""A rung is left again for a better one only when that costs this share less than is allowed: else a price that
trembles around the limit would move the fleet to and fro."""


class Rung(IntEnum):
    NOTHING = 0
    """All as its owner asks."""
    MORE_SPOT = 1
    """No limit on the share of spot capacity."""
    LOOSER_CLASS = 2
    """Less head-room, hence longer queues, and no spare capacity for a failure."""
    SHED = 3
    """Serve only the part of the demand that the allowance pays for; the planner serves by priority."""

    @property
    def text(self) -> str:
        return {0: "nothing is given up", 1: "more spot", 2: "a looser class of service", 3: "shedding demand"}[self]


@dataclass(frozen=True, slots=True)
class Tried:
    """The plan of a rung, solved and not applied."""

    rung: Rung
    usd_per_hour: float
    unmet: float = 0.0
    """Requests per second that it does not serve."""


@dataclass(frozen=True, slots=True)
class SolveRung:
    """Solve this rung next."""

    rung: Rung
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakeRung:
    """Hold the fleet to the plan of this rung. `reasons`: one for each rung that did not do, and who said so."""

    rung: Rung
    reasons: tuple[str, ...]


def next_step(
    allowed: Allowance, in_force: Rung, rungs: Sequence[Rung], tried: Sequence[Tried]
) -> SolveRung | TakeRung:
    """Return the next step on the ladder. `rungs`: those that change anything for this fleet, upwards from NOTHING and
    with SHED at the end. `tried`: the plans of the first of them, in their order. `in_force`: the rung that the fleet
    is held to so far."""
    reasons: list[str] = []
    for trial in tried:
        ease = EASE if trial.rung < in_force else 0.0
        if trial.usd_per_hour <= allowed.usd_per_hour * (1 - ease) or trial.rung is rungs[-1]:
            lost = f"; {trial.unmet:.3g} requests/s are not served" if trial.unmet and trial.rung is Rung.SHED else ""
            if reasons or lost:
                reasons.append(f"{trial.rung.text} costs {trial.usd_per_hour:,.2f} $/h{lost}")
            return TakeRung(trial.rung, tuple(reasons))
        margin = f" and {EASE:.0%} less is asked before anything is taken back" if ease else ""
        reasons.append(f"{trial.rung.text} costs {trial.usd_per_hour:,.2f} $/h; {allowed.reason}{margin}")
    return SolveRung(rungs[len(tried)], tuple(reasons))
