"""Limits that several offers share."""

from dataclasses import dataclass


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
