"""The port to where plans are kept, each with the snapshot that it was solved on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """One plan as lists of plans show it."""

    id: str
    created_at: str
    """ISO 8601, UTC."""
    name: str
    """Name of the fleet."""
    policy: str
    usd_per_hour: float
    unmet: dict[str, float]
    snapshot_version: str


@dataclass(frozen=True, slots=True)
class Baseline:
    """A plan by another policy on the same snapshot."""

    name: str
    usd_per_hour: float
    unmet_share: float
    """Unmet share of all requests."""
    breaks: tuple[str, ...]
    """Guardrails that it does not keep; such a fleet is no alternative."""


class PlanStore(Protocol):
    """A LookupError, with the nearest that is kept, answers a name that is not."""

    def save(self, name: str, plan: Plan, snapshot: Snapshot) -> None:
        """Store both or neither, under the fleet's name. What is kept under the same id or version stays as it was.

        Raises ValueError when the plan was solved on another snapshot, or for a number that is not finite.
        """
        ...

    def compare(self, plan_id: str, baselines: Sequence[Baseline]) -> None:
        """Keep what a plan that is kept was compared with. What is kept already stays."""
        ...

    def newest(self, limit: int) -> tuple[KeptPlan, ...]:
        """The newest `limit` plans, newest first."""
        ...

    def find(self, prefix: str) -> KeptPlan:
        """The plan whose id begins so. Raises LookupError for several, too."""
        ...

    def load(self, plan_id: str) -> Plan: ...

    def snapshot(self, version: str) -> Snapshot: ...
