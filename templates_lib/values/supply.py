"""Limits that several offers share."""

from collections.abc import Mapping
from dataclasses import dataclass

ROUNDING = 1e-6
"""Tolerance of the units that nodes take of a pool: weights may be fractions."""


@dataclass(frozen=True, slots=True)
class SupplyPool:
    """Σ weight · nodes ≤ limit over `members`, nodes already held included.

    AWS quotas are vCPUs per region and family (weight = vCPUs of the type); GCP's are GPUs per type and region.
    """

    id: str
    limit: float
    unit: str
    members: dict[str, float]
    """Offer key → what one node of it takes from the pool."""
    source: str = ""

    def taken(self, nodes: Mapping[str, int]) -> float:
        """Units of the pool that `nodes`, by offer key, take."""
        return sum(weight * nodes.get(key, 0) for key, weight in self.members.items())
