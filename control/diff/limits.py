"""Limits to how fast and how far a fleet may change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from control.diff.target import Column


@dataclass(frozen=True, slots=True)
class Disruption:
    """Number of ready instances that may be moved voluntarily in a window. Failures are not counted, and never
    blocked."""

    max_instances: int | None = None
    max_share: float | None = None
    """Share of the instances that are there; at least one instance."""
    window: timedelta = timedelta(hours=1)

    def allowance(self, instances: int) -> int | None:
        """Return the number of moves in any one window; None: any number."""
        bounds = [] if self.max_instances is None else [self.max_instances]
        if self.max_share is not None:
            bounds.append(max(int(self.max_share * instances + 1e-9), 1))
        return min(bounds) if bounds else None


@dataclass(frozen=True, slots=True)
class ChangeLimits:
    max_usd_per_hour: float | None = None
    """Rent of everything that is or will be rented, what is on its way out included."""
    max_new_nodes_per_hour: int | None = None
    disruption: Disruption = field(default_factory=Disruption)
    max_loss_share: float = 0.1
    """Share of a work class's planned capacity that may be missing at once where new instances find no room beside the
    old ones, so that it is not moved one instance at a time. One instance may always be."""


@dataclass(frozen=True, slots=True)
class Past:
    """Earlier events that count now. Times that lie ahead (a clock was set back) count as just now."""

    drained_at: tuple[datetime, ...] = ()
    """Times at which ready instances began to drain: of the disruption window at least."""
    rented_at: tuple[datetime, ...] = ()
    """Times at which nodes were rented, one entry a node: of the last hour at least."""
    used: frozenset[str] = frozenset()
    """Ids of all instances ever asked for by the plans that are wanted: an id is never used again."""
    not_before: Mapping[Column, datetime] = field(default_factory=dict)
    """Columns that back off after a failure, and until when."""

    def drains(self, window: timedelta, now: datetime) -> int:
        return sum(at > now - window for at in self.drained_at)

    def rentals(self, window: timedelta, now: datetime) -> int:
        return sum(at > now - window for at in self.rented_at)
