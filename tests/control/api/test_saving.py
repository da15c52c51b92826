"""What is saved is against homogeneous fleets that do the same work, and says which."""

from datetime import UTC, datetime

import pytest

from control.api.routes.plans import saving_of
from control.db.plan_summary import ListedPlan, PlanSummary
from templates_lib.ports.plan_store import Baseline

HOMO, JOINT, CAUCHY = (
    Baseline(name, usd, 0.0, ()) for name, usd in (("homo", 50.0), ("homo_joint", 45.0), ("cauchy", 41.0))
)


def plan(*baselines: Baseline, unmet: float = 0.0) -> ListedPlan:
    summary = PlanSummary("optimal", 0.0, {"chat/chat": unmet} if unmet else {}, 0.0, 40.0, 1.0, 3, 4)
    return ListedPlan("p", "f", "medley", datetime(2026, 1, 1, tzinfo=UTC), "s", 40.0, summary, baselines)


def test_it_is_against_homo_however_cheap_another_baseline_is() -> None:
    saving = saving_of(plan(CAUCHY, HOMO, JOINT), 0.0)
    assert saving is not None
    assert (saving.baseline, saving.baseline_usd_per_hour, saving.usd_per_hour, saving.share) == ("homo", 50, 10, 0.2)


@pytest.mark.parametrize("short", [Baseline("homo", 30.0, 0.2, ()), Baseline("homo", 30.0, 0.0, ("spot_share",))])
def test_where_homo_does_less_homogeneous_replicas_that_are_chosen_together_stand_in(short: Baseline) -> None:
    saving = saving_of(plan(short, JOINT, CAUCHY), 0.0)
    assert saving is not None
    assert (saving.baseline, saving.usd_per_hour) == ("homo_joint", 5)
    assert saving_of(plan(short, CAUCHY), 0.0) is None


def test_a_plan_that_is_short_is_compared_only_where_it_is_known_how_much() -> None:
    assert saving_of(plan(HOMO, unmet=1.0), None) is None
    assert saving_of(plan(Baseline("homo", 30.0, 0.1, ()), unmet=1.0), 0.1) is not None
