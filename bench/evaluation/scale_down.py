"""How much of the demand a method can serve at all (Coral, section 6.4)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Feasible:
    """The largest uniform share of the demand that a method serves whole, and its plan there (None: not even a bit)."""

    share: float
    plan: Plan | None


def scale_demand(snapshot: Snapshot, share: float) -> Snapshot:
    """The snapshot with every rate times `share`; its version says so."""
    demand = tuple(replace(d, requests_per_s=d.requests_per_s * share) for d in snapshot.demand)
    return replace(snapshot, demand=demand, version=f"{snapshot.version}*{share:.6f}")


def scale_to_feasible(plan: Callable[[Snapshot], Plan], snapshot: Snapshot) -> Feasible:
    """Halve the interval of shares until it is 0.01 wide; 1 when the whole demand is served."""
    whole = plan(snapshot)
    return scale_below_whole(plan, snapshot) if whole.unmet else Feasible(1.0, whole)


def scale_below_whole(plan: Callable[[Snapshot], Plan], snapshot: Snapshot) -> Feasible:
    """The same of a demand that is known not to be served whole."""
    served, unserved, best = 0.0, 1.0, None
    while unserved - served > _TOLERANCE:
        share = (served + unserved) / 2
        candidate = plan(scale_demand(snapshot, share))
        if candidate.unmet:
            unserved = share
        else:
            served, best = share, candidate
    return Feasible(served, best)
