"""Saving of a plan against homogeneous fleets."""

from pydantic import BaseModel, Field

from control.db.plan_summary import ListedPlan

_SERVED_SHARE = 1e-6
_HOMOGENEOUS = ("homo", "homo_joint")
"""Homo chooses for each model alone, so that it is short where models want the same nodes: Homo-joint stands in."""


class Saving(BaseModel):
    baseline: str = Field(
        description="`homo`: every model takes its cheapest homogeneous single-node replicas. `homo_joint`, where that "
        "serves less than the plan or breaks a guardrail: homogeneous replicas chosen together."
    )
    baseline_usd_per_hour: float
    usd_per_hour: float = Field(description="Saved.")
    share: float = Field(description="Share of the baseline's cost.")


def saving_of(plan: ListedPlan, unmet_share: float | None) -> Saving | None:
    """Against the homogeneous baseline that leaves no more unmet and breaks no guardrail. `unmet_share`: of the plan,
    where it is known; where it is not, only a plan that serves everything is compared."""
    if unmet_share is None:
        if plan.summary.unmet:
            return None
        unmet_share = 0.0
    complete = {b.name: b for b in plan.baselines if b.unmet_share <= unmet_share + _SERVED_SHARE and not b.breaks}
    against = next((complete[name] for name in _HOMOGENEOUS if name in complete), None)
    if against is None:
        return None
    saved = against.usd_per_hour - plan.usd_per_hour
    return Saving(
        baseline=against.name,
        baseline_usd_per_hour=against.usd_per_hour,
        usd_per_hour=saved,
        share=saved / against.usd_per_hour if against.usd_per_hour else 0.0,
    )
