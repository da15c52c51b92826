"""Settings of a keeper: how patient it is."""

from dataclasses import dataclass, field
from datetime import timedelta

from control.lifecycle.patience import Patience


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    repair_s: float = 5.0
    """Between comparisons with what the clouds list; and between writings of a routing table that has not changed."""
    in_flight: timedelta = timedelta(minutes=2)
    """`recover` leaves calls alone that began later: they may be under way, or too young for the cloud's list."""
    first_in_flight: timedelta = timedelta(0)
    """The same at the start, when nobody else is calling."""
    patience: Patience = field(default_factory=Patience)
    end_s: float = 10.0
    """Time for what is under way when everything is ended; the rest is cut off."""
