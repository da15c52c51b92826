"""What one instance has cost in a period, or what leaked at one cloud."""

from dataclasses import dataclass
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
    """In the period, exactly."""
    usd_per_hour: Fraction
    """At the period's end, of the nodes that are still held then."""
    nodes: int
    """Still held at the period's end."""
    unpriced_node_s: float
    """Seconds of nodes of which nobody knows what they cost: `usd` lacks them."""

    @property
    def leaked(self) -> bool:
        return not self.instance_id
