"""Cost of one instance in a period, or of what leaked at one cloud."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Charge:
    """An instance whose nodes are of several models, projects or clouds has several."""

    instance_id: str
    """Empty: no row explains it, it has leaked."""
    fleet: str
    project: str
    model: str
    cloud: str
    market: str
    usd: Fraction
    """Dollars of the period, exactly."""
    usd_per_hour: Fraction
    """Dollars an hour at the period's end, of the nodes that are still held then."""
    nodes: int
    """Number of nodes still held at the period's end."""
    unpriced_node_s: float
    """Seconds of nodes of which nobody knows what they cost: `usd` lacks them."""

    def split(self, shares: Mapping[str, Fraction]) -> "tuple[Charge, ...]":
        """One for each model of `shares`, which add up to 1; a node that models share counts for each of them."""
        parts = ((model, n, self.unpriced_node_s * float(n)) for model, n in shares.items())
        return tuple(
            replace(self, model=model, usd=self.usd * n, usd_per_hour=self.usd_per_hour * n, unpriced_node_s=unpriced)
            for model, n, unpriced in parts
        )

    @property
    def leaked(self) -> bool:
        return not self.instance_id
