"""What became of an offer over time."""

from collections.abc import Mapping
from dataclasses import dataclass

from control.simulator.step_log import StepLog
from templates_lib.values.offer import Offer


@dataclass(frozen=True, slots=True)
class OfferLog:
    """Times are seconds from the world's start."""

    offer: Offer
    """An offer at any time; its price and count are the logs'."""
    usd_per_hour: StepLog
    nodes: StepLog
    """How many can be held at once; inf: as many as one likes."""


@dataclass(frozen=True, slots=True)
class SharedLog:
    """A limit that several offers share: Σ weight · nodes held ≤ limit."""

    id: str
    members: Mapping[str, float]
    """Offer key → weight."""
    limit: StepLog
    unit: str = "nodes"
    source: str = "log"
