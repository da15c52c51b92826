"""The check that a launch keeps within what a fleet may spend. The executor asks again, on fresh figures, before it
rents."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from control.diff.limits import ChangeLimits, Past
from control.diff.moves import WaitKind
from control.diff.running import Running

_HOUR = timedelta(hours=1)
_SLACK_USD = 1e-9


@dataclass(frozen=True, slots=True)
class Spending:
    usd_per_hour: float
    """Dollars an hour of all that is or will be rented."""
    new_nodes: int
    """Rented within the last hour, or about to be."""

    def with_launch(self, usd_per_hour: float, nodes: int) -> "Spending":
        return Spending(self.usd_per_hour + usd_per_hour, self.new_nodes + nodes)


@dataclass(frozen=True, slots=True)
class SpendingRefusal:
    kind: WaitKind
    reason: str


def spending_of(staying: Iterable[Running], leaving: Iterable[Running], past: Past, now: datetime) -> Spending:
    """`staying` will rent what they lack; `leaving` cost what they still hold."""
    usd, nodes = sum(each.held_usd_per_hour for each in leaving), past.rentals(_HOUR, now)
    for each in staying:
        usd += each.usd_per_hour
        nodes += each.missing_nodes
    return Spending(usd, nodes)


def refusal(limits: ChangeLimits, spending: Spending, usd_per_hour: float, nodes: int) -> SpendingRefusal | None:
    """Return why an instance of `nodes` nodes at `usd_per_hour` must not be launched now; None when it may."""
    after = spending.with_launch(usd_per_hour, nodes)
    most_usd, most_nodes = limits.max_usd_per_hour, limits.max_new_nodes_per_hour
    if most_usd is not None and after.usd_per_hour > most_usd + _SLACK_USD:
        return SpendingRefusal(
            WaitKind.SPEND,
            f"the fleet would cost {after.usd_per_hour:.2f} $/h, and may cost {most_usd:.2f}",
        )
    if most_nodes is not None and after.new_nodes > most_nodes:
        return SpendingRefusal(
            WaitKind.NEW_NODES,
            f"{after.new_nodes} nodes would have been rented within an hour, and {most_nodes} may be",
        )
    return None
