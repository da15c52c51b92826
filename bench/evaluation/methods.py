"""The methods that are compared: each plans the same snapshot over the same library, and independent code checks it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from bench.evaluation.scale_down import scale_below_whole, scale_demand
from control.allocator import solve
from control.checker import check
from policies.baselines import BASELINES, OF_UNITS, baseline
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

TIMED = partial(solve, clock=time.perf_counter)
METHODS: dict[str, Callable[..., Plan]] = {
    "medley": lambda s, library, by: by(s, library),
    **{name: baseline(name) for name in BASELINES if name not in OF_UNITS},
}
NAMES = {"medley": "Medley", "homo": "Homo", "homo_joint": "Homo-joint", "cauchy": "Cauchy"}
"""As people know them."""
_ANY_GAP = 0.1


class WrongPlanError(RuntimeError):
    """A plan that the check does not agree with."""


def checked_plan(method: str, snapshot: Snapshot, library: Library) -> Plan:
    """Raises WrongPlanError."""
    plan = METHODS[method](snapshot, library, TIMED)
    violations = check(plan, snapshot)
    if violations:
        raise WrongPlanError(f"{method} on {snapshot.version}: {violations[0]}")
    return plan


@dataclass(frozen=True, slots=True, eq=False)
class Offered:
    """What a method makes of a demand."""

    share: float
    """The largest of the demand, every model at the same share, that it serves whole (section 6.4)."""
    snapshot: Snapshot
    """With the demand at that share; with all of it where the share is 0."""
    plan: Plan
    """For that demand. Where the share is 0, it leaves at least one model unserved."""
    whole: Plan
    """For all of the demand, whatever it leaves unmet."""


def planned(method: str, snapshot: Snapshot, library: Library) -> Offered:
    """Raises WrongPlanError."""
    whole = checked_plan(method, snapshot, library)
    if not whole.unmet:
        return Offered(1.0, snapshot, whole, whole)
    found = scale_below_whole(lambda view: checked_plan(method, _hasty(view), library), snapshot)
    if found.plan is None:
        return Offered(0.0, snapshot, whole, whole)
    there = scale_demand(snapshot, found.share)
    return Offered(found.share, there, checked_plan(method, there, library), whole)


def _hasty(snapshot: Snapshot) -> Snapshot:
    """Whether demand can be served is known long before the least cost of it is."""
    settings = snapshot.settings
    return replace(snapshot, settings=replace(settings, limits=replace(settings.limits, gap=_ANY_GAP)))
