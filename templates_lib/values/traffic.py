"""Prices of bytes that move between zones."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrafficPrice:
    """Price of traffic from one zone to another. No price: no crossing; within a zone it is free."""

    source: str
    target: str
    usd_per_gb: float
    """Price of 10⁹ bytes, egress and ingress charges added up."""
