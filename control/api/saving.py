"""What a plan saves against what it was compared with."""

from pydantic import BaseModel, Field

from control.db.plan_summary import ListedPlan

_SERVED_SHARE = 1e-6


class Saving(BaseModel):
    baseline: str
    baseline_usd_per_hour: float
    usd_per_hour: float = Field(description="Saved.")
    share: float = Field(description="Of the baseline's cost.")


def saving_of(plan: ListedPlan, unmet_share: float | None) -> Saving | None:
    """Against the cheapest baseline that leaves no more unmet and breaks no guardrail. `unmet_share`: of the plan,
    where it is known; where it is not, only a plan that serves everything is compared."""
    if unmet_share is None:
        if plan.summary.unmet:
            return None
        unmet_share = 0.0
    complete = [b for b in plan.baselines if b.unmet_share <= unmet_share + _SERVED_SHARE and not b.breaks]
    if not complete:
        return None
    least = min(complete, key=lambda baseline: baseline.usd_per_hour)
    saved = least.usd_per_hour - plan.usd_per_hour
    return Saving(
        baseline=least.name,
        baseline_usd_per_hour=least.usd_per_hour,
        usd_per_hour=saved,
        share=saved / least.usd_per_hour if least.usd_per_hour else 0.0,
    )
