"""Moves to make next, in named buckets. Values: another module carries them out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from control.diff.target import Column, Target


@dataclass(frozen=True, slots=True)
class Launch:
    id: str
    """Identifier of the instance to be requested."""
    target: Target
    offers: Mapping[str, int]
    """Offer key → nodes that are expected of it, the cheapest that has room; whoever rents may take another of the
    same node configuration, zone and market."""
    reason: str

    @property
    def usd_per_hour(self) -> float:
        return self.target.usd_per_hour


@dataclass(frozen=True, slots=True)
class Drain:
    """A ready instance is to take no new request, and to be given back when it has none left."""

    instance_id: str
    usd_per_hour: float
    """Dollars an hour that end with it."""
    requests: int
    """Requests under way or waiting on it now."""
    reason: str
    loss: Mapping[str, float] = field(default_factory=dict)
    """Units per second by work class that are missing until a replacement is ready: only where nothing else makes
    room for it."""


@dataclass(frozen=True, slots=True)
class Release:
    """An instance that is not ready yet is to be given back."""

    instance_id: str
    usd_per_hour: float
    reason: str


class WaitKind(StrEnum):
    SUPPLY = "supply"
    """Offers and pools have no room for the launch, and would not if all that is unwanted were gone."""
    ROOM = "room"
    """The launch waits for what is on its way out, or must not leave yet."""
    SPEND = "spend"
    """The launch would cost more per hour than the fleet may."""
    NEW_NODES = "new_nodes"
    """The fleet has rented as many nodes within an hour as it may."""
    BACK_OFF = "back_off"
    """Instances like it failed a moment ago."""
    CAPACITY = "capacity"
    """An unwanted instance is kept until what replaces it is ready."""
    DISRUPTION = "disruption"
    """An unwanted instance is kept until the disruption budget allows its drain."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A change that is not made now, and why."""

    kind: WaitKind
    column: Column
    count: int
    """Instances of the column that wait: to be launched, or to be drained."""
    usd_per_hour: float
    """Dollars an hour of them all."""
    reason: str
    until: datetime | None = None
    """Time from which it may change by itself; None: with the fleet or the market."""


@dataclass(frozen=True, slots=True)
class MoveSet:
    launch: tuple[Launch, ...] = ()
    drain: tuple[Drain, ...] = ()
    release: tuple[Release, ...] = ()
    wait: tuple[Wait, ...] = ()

    @property
    def acts(self) -> int:
        """Count the moves to carry out. Where nothing waits either, the fleet is as its plan wants it."""
        return len(self.launch) + len(self.drain) + len(self.release)
