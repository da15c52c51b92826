"""A fleet on record: what its owner has asked for, and which plan it is held to."""

from dataclasses import dataclass
from enum import StrEnum


class FleetMode(StrEnum):
    """Modes of a fleet: how far the control plane may go by itself."""

    OBSERVE = "observe"
    """Plan, price and explain; touch nothing. Where every fleet starts."""
    APPROVE = "approve"
    """Propose plans; act on those that somebody has approved. What fails is replaced without asking."""
    AUTO = "auto"
    """Act on every plan."""


@dataclass(frozen=True, slots=True)
class FleetRecord:
    name: str
    project: str
    spec: str
    """The text of its spec, YAML or JSON."""
    folder: str
    """Folder in which relative paths of the spec begin; empty: it may name none."""
    mode: FleetMode
    version: int
    """+1 a write: who writes names the version that it has read."""
    ending: bool
    """True while its instances are drained; the record goes with the last of them."""
    updated_at: str
    """ISO 8601, UTC."""


@dataclass(frozen=True, slots=True)
class FleetTarget:
    """The plan that a fleet is held to, and the one that waits for somebody's word. Ids; empty: none."""

    fleet: str
    accepted: str = ""
    accepted_at: str = ""
    accepted_by: str = ""
    proposed: str = ""
    proposed_at: str = ""
    version: int = 0
    trouble: str = ""
    """Why the fleet cannot be planned or run now; empty: it can."""


def may_serve(record: FleetRecord, target: FleetTarget | None) -> bool:
    """Tell whether clients may reach models of the fleet: not while it ends, nor where it has only ever observed."""
    acts = record.mode is not FleetMode.OBSERVE or (target is not None and bool(target.accepted))
    return acts and not record.ending
