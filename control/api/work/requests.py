"""Requests to workers, as rows of operations hold them."""

from dataclasses import dataclass
from typing import Any

from control.planning.objectives import Axis
from control.planning.what_if import WhatIf


@dataclass(frozen=True, slots=True)
class PlanRequest:
    fleet: str
    """Name of a stored fleet; empty: that of `spec`."""
    spec: dict[str, Any] | None = None
    """A draft, in place of the stored spec."""
    what_if: WhatIf | None = None
    baselines: bool = True
    project: str | None = None
    """Project whose budgets limit a draft; None: the stored one, or the default; empty: no budget does."""
    over_budget: bool = False
    """Whether a plan that leaves demand unmet for lack of budget is made; else it is refused, with the numbers."""


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    plan: str


@dataclass(frozen=True, slots=True)
class ObjectivesRequest:
    plan: str
    model: str
    """As the fleet calls it."""
    axis: Axis
    values: tuple[float, ...]
    """Milliseconds, or percent, in ascending order, each once; empty: some around the objective in force."""


@dataclass(frozen=True, slots=True)
class RefreshRequest:
    clouds: tuple[str, ...]
    """Empty: all that can be asked."""
