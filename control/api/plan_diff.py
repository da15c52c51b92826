"""Changes that a plan would make, as a document."""

from pydantic import BaseModel, Field

from control.actions.plan_change import PlanChange
from control.diff.describe import describe
from control.diff.groups import MoveGroup


class DiffStep(BaseModel):
    """Moves that may be made at the same time; the next step begins when these are done."""

    launch: list[str] = Field(description="Ids of instances.")
    drain: list[str]
    release: list[str]
    text: list[str] = Field(description="A line each.")
    groups: list[MoveGroup] = Field(description="The same, equal moves together.")


class PlanDiff(BaseModel):
    plan_id: str
    fleet: str
    mark: str = Field(description="Hash of this diff: `:apply` takes it, and applies what was looked at.")
    is_empty: bool
    usd_per_hour_before: float
    usd_per_hour_after: float
    most_usd_per_hour: float = Field(description="While old and new run side by side.")
    units_per_s_before: dict[str, float] = Field(description="By work class, of ready instances.")
    units_per_s_after: dict[str, float]
    kept: int
    launched: int
    drained: int
    released: int
    requests_at_risk: int = Field(description="On instances that go: a drain waits for them up to its deadline.")
    promised_loss: dict[str, float] = Field(description="Units per second by work class that are missing on the way.")
    steps: list[DiffStep]
    stuck: list[str] = Field(description="What no step does: the plan does not fit supply or limits.")
    unrunnable: list[str] = Field(description="Why no node could run what is planned, such as an engine it has not.")


_FIGURES = (
    "is_empty", "usd_per_hour_before", "usd_per_hour_after", "most_usd_per_hour", "units_per_s_before",
    "units_per_s_after", "kept", "launched", "drained", "released", "requests_at_risk",
)  # fmt: skip


def plan_diff(change: PlanChange) -> PlanDiff:
    diff, transition = change.diff, change.diff.transition
    return PlanDiff(
        plan_id=change.plan.id,
        fleet=change.record.name,
        mark=change.mark,
        **{name: getattr(diff, name) for name in _FIGURES},
        promised_loss=transition.promised_loss,
        steps=[
            DiffStep(
                launch=[launch.id for launch in step.launch],
                drain=[drain.instance_id for drain in step.drain],
                release=[release.instance_id for release in step.release],
                text=list(describe(step)),
                groups=list(groups),
            )
            for step, groups in zip(transition.steps, diff.groups, strict=True)
        ],
        stuck=[wait.reason for wait in transition.stuck],
        unrunnable=list(change.unrunnable),
    )
