"""What is asked of workers: rows of operations hold these."""

from dataclasses import dataclass
from typing import Any

from control.planning.what_if import WhatIf


@dataclass(frozen=True, slots=True)
class PlanRequest:
    fleet: str
    """On record; empty: of `spec`."""
    spec: dict[str, Any] | None = None
    """A draft, in place of what is on record."""
    what_if: WhatIf | None = None
    baselines: bool = True
    project: str | None = None
    """Whose budgets hold for a draft; None: as on record, or the default one; empty: none's."""
    over_budget: bool = False
    """A plan that leaves demand unmet for want of money is made; else it is refused, with the numbers."""


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    plan: str


@dataclass(frozen=True, slots=True)
class RefreshRequest:
    clouds: tuple[str, ...]
    """Empty: all that can be asked."""
