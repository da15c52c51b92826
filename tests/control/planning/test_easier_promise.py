"""What would help where a plan misses a promise, or a promise leaves a model without instances."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.planning.easier_promise import EASIER_PROMISE, easier_promises, missed_objectives, starved_models
from control.planning.objective_costs import ObjectiveCosts
from control.planning.objectives import Axis, Objective
from control.planning.promise import Promise
from control.planning.session import PlanningSession
from templates_lib.values.plan import Attained, Plan
from tests.control.planning.worlds import KEEP_SPEC, NOON, ROUGHLY, world_of

MODEL = "gpt-oss-20b"
SHORT = KEEP_SPEC.format(keep="{percentile: 99}").replace("requests_per_s: 20", "requests_per_s: 5")
"""Its nodes keep a time per token of 9 ms, and hardly any batch with it."""


def costs_of(database: Database, folder: Path, spec: str) -> tuple[ObjectiveCosts, Plan]:
    session = PlanningSession(
        PostgresLibraries(database),
        PostgresPlans(database),
        lambda *_: None,
        time.perf_counter,
        attainment=ROUGHLY,
    )
    recording, templates = session.record(world_of(folder, spec), NOON)
    assert recording.recipe is not None
    report = session.plan(recording, templates, baselines=False)
    return ObjectiveCosts(session, recording.recipe, report.snapshot, templates.library), report.plan


def test_what_a_promise_leaves_unserved_could_be_served_with_less_of_it(
    module_database: Database, tmp_path: Path
) -> None:
    costs, plan = costs_of(module_database, tmp_path, SHORT.replace("tpot_ms: 60", "tpot_ms: 9"))
    assert starved_models(costs.recipe, plan, costs.snapshot) == (MODEL,)
    begun: list[int] = []
    free, eased = easier_promises(costs, plan, lambda: begun.append(1))
    assert begun == [1]
    assert {free.kind, eased.kind} == {EASIER_PROMISE}
    assert free.usd_per_hour == pytest.approx(costs.unpromised([MODEL]).plan.usd_per_hour)
    assert sum(costs.unpromised([MODEL]).plan.unmet.values()) < sum(plan.unmet.values()) / 2
    assert "TPOT" in eased.text


def test_a_promise_that_is_missed_has_the_first_easier_objective_that_is_kept(
    module_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs, plan = costs_of(module_database, tmp_path, SHORT)
    late = replace(plan, attainment={f"{MODEL}/prefill": Attained(0.97, 99.0, 24_000, 0)})
    assert missed_objectives(costs.recipe, late) == {Objective(MODEL, Axis.TTFT)}
    assert starved_models(costs.recipe, late, costs.snapshot) == ()
    tried: list[float] = []
    real = ObjectiveCosts.planned

    def strict(self: ObjectiveCosts, values: dict[Objective, float]) -> Promise:
        """Below two seconds the promise is missed."""
        tried.extend(values.values())
        found = real(self, values)
        return found if tried[-1] >= 2000 else replace(found, attainment=late.attainment)

    monkeypatch.setattr(ObjectiveCosts, "planned", strict)
    (reason,) = easier_promises(costs, late, lambda: None)
    assert tried == [1650, 1880, 2400]
    assert "TTFT 1.5 s -> 2.4 s" in reason.text
    assert reason.usd_per_hour is not None
    assert reason.usd_per_hour <= plan.usd_per_hour


def test_of_a_plan_that_keeps_and_serves_all_nothing_is_tried(module_database: Database, tmp_path: Path) -> None:
    costs, plan = costs_of(module_database, tmp_path, SHORT)
    assert easier_promises(costs, plan, lambda: pytest.fail("it plans")) == ()
    # Without a promise, supply alone is short.
    unpromised, _ = costs_of(module_database, tmp_path, SHORT.replace("{percentile: 99}", "throughput"))
    unmet = {each.key: each.requests_per_s for each in unpromised.snapshot.demand}
    assert starved_models(unpromised.recipe, replace(plan, unmet=unmet), unpromised.snapshot) == ()
    assert starved_models(costs.recipe, replace(plan, unmet=unmet), costs.snapshot) == (MODEL,)
