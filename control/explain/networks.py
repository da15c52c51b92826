"""What it costs that networks do not reach each other, found by re-solving."""

from dataclasses import replace

from control.explain.limits import Limit
from templates_lib.ports.solve import Solve
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.settings import Mode
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.traffic import TrafficPrice

CENT = 0.01


def joined(snapshot: Snapshot, no_way: tuple[TrafficPrice, ...]) -> Snapshot | None:
    """Return the snapshot as if all its networks were joined; None: that changes nothing."""
    if not no_way or snapshot.settings.mode is Mode.PAPER:
        return None
    return replace(snapshot, version="", traffic=(*snapshot.traffic, *no_way))


def networks_apart(plan: Plan, changed: Snapshot | None, library: Library, solve: Solve) -> Limit | None:
    """Return the limit where a plan with all networks joined costs less than this one can be proven to have to; both
    serve all demand."""
    if changed is None:
        return None
    other = solve(changed, library)
    saving = plan.usd_per_hour - other.usd_per_hour
    if other.unmet or other.objective > plan.bound - CENT or saving < CENT:
        return None
    text = f"networks that do not reach each other: joined (`network.peered`), the fleet costs {saving:,.2f} $/h less"
    return Limit("network", "peered", text, saving)
