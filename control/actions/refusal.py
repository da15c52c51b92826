"""Reasons to refuse an action, which has changed nothing then. The type of an error is the next step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from control.preflight.finding import Finding, failing

if TYPE_CHECKING:
    from control.actions.plan_change import PlanChange


class RefusedActionError(ValueError):
    """An action was refused; the message says why, and what to do."""


class WrongFieldError(RefusedActionError):
    """The value of `field` is wrong: correct it. Empty: several values do not go together."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NotNowError(RefusedActionError):
    """The state of a fleet, plan or instance forbids it: change that first, as the message says."""


@dataclass(frozen=True, slots=True)
class LostTraffic:
    """Traffic that a serving model would lose: ready instances, requests that they compute, and requests that wait."""

    instances: int = 0
    running: int = 0
    waiting: int = 0


class LosesTrafficError(RefusedActionError):
    """Models that serve would be drained: confirm each of `models` by its name."""

    def __init__(self, fleet: str, models: Mapping[str, LostTraffic]) -> None:
        each = ", ".join(
            f"{name} ({lost.instances} instances, {lost.running} requests running, {lost.waiting} waiting)"
            for name, lost in models.items()
        )
        super().__init__(f"fleet {fleet!r} serves {each}; they would be drained")
        self.models = models


class FailsPreflightError(RefusedActionError):
    """Rented nodes could not serve the fleet: mend what `found` says fails, or act without preflight."""

    def __init__(self, fleet: str, mode: str, found: Sequence[Finding]) -> None:
        super().__init__(
            f"fleet {fleet!r} is not applied in mode {mode}: {'; '.join(failing(found))}. Mend that, or apply it "
            "without preflight"
        )
        self.found = tuple(found)


class LookFirstError(RefusedActionError):
    """The caller has not seen `change`, which is what the plan changes now: look at it, and send its mark."""

    def __init__(self, change: "PlanChange", *, is_first: bool) -> None:
        diff = change.diff
        why = "look at this change first" if is_first else "what runs has changed since: look at the change again"
        super().__init__(
            f"{why}, and send its mark: {diff.usd_per_hour_before:.2f} -> {diff.usd_per_hour_after:.2f} $/h, "
            f"{diff.launched} come, {diff.drained + diff.released} go, {diff.requests_at_risk} requests at risk"
        )
        self.change = change
