"""Events of a fleet: who, what, why. Rows of it are only ever added."""

from collections.abc import Mapping
from dataclasses import dataclass, field

RECONCILER = "reconciler"
"""Actor of what the control plane does by itself; others are tokens, `token:<id>`, and shells, `cli:<user>`."""

Detail = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class FleetEvent:
    actor: str
    kind: str
    """Kind of the event, such as `plan.accepted`, `instance.ready` or `token.revoked`."""
    text: str
    """Why, for people. Never a secret: it is stored and shown."""
    fleet: str = ""
    """Empty: it is about no fleet."""
    subject: str = ""
    """Id of what it is about: a plan, an instance, a node, an offer."""
    detail: Detail = field(default_factory=dict)
    """Figures of the event for programs, by name with the unit, whatever the text says: what a plan that was accepted
    costs and what the one before did, the limits of a budget. Empty where there are none."""
    trace: str = ""
    """Id of the trace (W3C) of the request that it belongs to."""


@dataclass(frozen=True, slots=True)
class PastEvent:
    sequence: int
    """Position in the order of writing (with holes)."""
    at: str
    """ISO 8601, UTC."""
    event: FleetEvent
