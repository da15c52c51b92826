"""What a fleet costs under other objectives: planned with the same demand, prices and supply."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.planning.objective_costs import ObjectiveCosts
from control.planning.objectives import MOST_POINTS, Axis, Objective, models_of, now_of, under
from control.planning.recipe import Recipe
from control.planning.session import PlanningSession
from control.planning.templates import obtain
from control.simulator.attainment import SimulatedAttainment
from templates_lib.values.plan import Plan
from tests.control.planning.worlds import KEEP_SPEC, NOON, ROUGHLY, world_of

MODEL = "gpt-oss-20b"
BOTH = KEEP_SPEC.replace(
    "clouds:",
    "  - model: phi-4-14b\n    slo: {{ttft_ms: 1500, tpot_ms: 80, keep: {keep}}}\n"
    "    workload: azure-conversation\n    demand: {{requests_per_s: 2}}\nclouds:",
)


def _costs(database: Database, folder: Path, spec: str) -> tuple[ObjectiveCosts, Plan]:
    session = PlanningSession(
        PostgresLibraries(database),
        PostgresPlans(database),
        lambda *_: None,
        time.perf_counter,
        attainment=ROUGHLY,
    )
    recording, templates = session.record(world_of(folder, spec), NOON)
    report = session.plan(recording, templates, baselines=False)
    assert recording.recipe is not None
    return ObjectiveCosts(session, recording.recipe, report.snapshot, templates.library), report.plan


@pytest.fixture(scope="module")
def of_one(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> tuple[ObjectiveCosts, Plan]:
    return _costs(module_database, tmp_path_factory.mktemp("one"), KEEP_SPEC.format(keep="{percentile: 99}"))


@pytest.fixture(scope="module")
def of_two(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> tuple[ObjectiveCosts, Plan]:
    """Of two models, one with tight objectives."""
    spec = BOTH.format(keep="{percentile: 99}").replace("ttft_ms: 1500, tpot_ms: 60", "ttft_ms: 700, tpot_ms: 14")
    return _costs(module_database, tmp_path_factory.mktemp("two"), spec)


@pytest.mark.parametrize("axis", [Axis.TTFT, Axis.TPOT])
def test_a_curve_goes_through_the_plan_and_falls_as_the_objective_is_eased(
    of_one: tuple[ObjectiveCosts, Plan], axis: Axis
) -> None:
    costs, plan = of_one
    now = now_of(costs.recipe, Objective(MODEL, axis))
    heard: list[tuple[int, int]] = []
    curve = costs.curve(
        plan, Objective(MODEL, axis), (now * 2, now / 100, now / 2), lambda _, __, *count: heard.append(count)
    )
    assert [point.value for point in curve.points] == [now / 100, now / 2, now, now * 2]
    none, *kept = curve.points
    assert none.usd_per_hour is None
    assert "nearest is" in none.problem
    assert all(point.is_kept and point.unmet_share == 0 for point in kept)
    usd = [point.usd_per_hour for point in kept if point.usd_per_hour is not None]
    assert usd == sorted(usd, reverse=True)
    assert usd[1] == plan.usd_per_hour
    assert heard == [(1, 3), (2, 3), (3, 3)]


def test_a_point_is_what_a_spec_with_that_objective_costs(module_database: Database, tmp_path: Path) -> None:
    """Of two models, one changes: the other's templates are taken as they are."""
    costs, plan = _costs(module_database, tmp_path, BOTH.format(keep="throughput"))
    spec = BOTH.format(keep="throughput").replace("tpot_ms: 60", "tpot_ms: 15")
    tighter, other = _costs(module_database, tmp_path, spec)
    found = costs.planned({Objective(MODEL, Axis.TPOT): 15.0})
    assert found.plan.usd_per_hour == pytest.approx(other.usd_per_hour)
    assert other.usd_per_hour > plan.usd_per_hour
    there = {*costs.library.ids.tolist()} & {*tighter.library.ids.tolist()}
    assert there  # those of the other model


def test_easier_objectives_that_save_are_named_the_most_first(of_two: tuple[ObjectiveCosts, Plan]) -> None:
    costs, plan = of_two
    found = costs.easier(plan)
    assert len(tuple(costs.steps())) == 6
    assert found
    assert [each.usd_per_hour for each in found] == sorted((each.usd_per_hour for each in found), reverse=True)
    for each in {found[0], found[-1]}:
        curve = costs.curve(plan, Objective(each.model, each.axis), (each.then,))
        now, then = sorted(curve.points, key=lambda point: point.value != each.now)
        assert (now.usd_per_hour or 0) - (then.usd_per_hour or 0) == pytest.approx(each.usd_per_hour)
    assert all(f"saves {each.usd_per_hour:,.2f} $/h" in each.text for each in found)


def test_both_request_types_of_a_model_get_the_objective(tmp_path: Path) -> None:
    spec = KEEP_SPEC.format(keep="throughput").replace("tpot_ms: 60,", "tpot_ms: 60, max_prompt_tokens: 2000,")
    recipe = Recipe((world_of(tmp_path, spec).recipe,))
    assert [each.name for each in models_of(recipe)[MODEL]] == [MODEL, f"{MODEL}-long"]
    changed, own = under(recipe, {Objective(MODEL, Axis.TTFT): 1.0, Objective(MODEL, Axis.PERCENTILE): 95.0})
    assert [(s.slo.ttft_ms, s.slo.tpot_ms, s.slo.percentile) for s in own.served] == [(1.0, 60.0, 95.0)] * 2
    assert changed.sources == (own,) or changed.sources[0] != recipe.sources[0]
    with pytest.raises(ValueError, match=f"did you mean '{MODEL}'"):
        now_of(recipe, Objective("gpt-oss-2b", Axis.TTFT))


@pytest.mark.parametrize("bad", [(0.0,), (-1.0,), (float("nan"),), (float("inf"),), tuple(map(float, range(1, 99)))])
@pytest.mark.parametrize("axis", list(Axis))
def test_values_that_are_no_objectives_are_refused(axis: Axis, bad: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=axis.label):
        axis.checked(bad)


def test_percentiles_are_within_what_a_spec_may_promise() -> None:
    for bad in (49.0, 99.95):
        with pytest.raises(ValueError, match=r"from 50 to 99\.9 %"):
            Axis.PERCENTILE.checked((bad,))
    assert (Axis.PERCENTILE.easier(99.0), Axis.PERCENTILE.easier(50.0)) == (95.0, None)


@given(st.sampled_from(list(Axis)), st.floats(51, 99.9))
def test_steps_are_easier_and_points_around_are_allowed(axis: Axis, value: float) -> None:
    easier = axis.easier(value)
    assert easier is not None
    assert axis.ease(easier) > axis.ease(value)
    assert value not in axis.around(value)
    assert axis.checked(axis.around(value)) == axis.around(value)
    assert len(axis.around(value)) < MOST_POINTS


def test_what_is_known_of_other_models_is_not_simulated_again(
    of_two: tuple[ObjectiveCosts, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    costs, plan = of_two
    templates = obtain(costs.recipe, costs.session.store, lambda *_: None)
    attain = costs.session.attain(costs.recipe, templates)
    assert attain is not None
    before = attain(plan, costs.snapshot)
    asked: list[str] = []
    real: Callable[..., object] = SimulatedAttainment._simulated
    monkeypatch.setattr(
        SimulatedAttainment,
        "_simulated",
        lambda self, served, plan: asked.append(served.name) or real(self, served, plan),
    )
    recipe, _ = under(costs.recipe, {Objective(MODEL, Axis.TTFT): 1.0})
    after = attain.under(recipe, templates)(plan, costs.snapshot)
    assert asked == [MODEL]
    assert after[f"{MODEL}/prefill"].share < before[f"{MODEL}/prefill"].share
    assert after["phi-4-14b/prefill"] == before["phi-4-14b/prefill"]


@pytest.mark.parametrize("output_tokens", [1, 120])
def test_a_workload_of_one_request_is_promised_something_true(
    module_database: Database, tmp_path: Path, output_tokens: int
) -> None:
    (tmp_path / "one.csv").write_text(f"arrival_s,input_tokens,output_tokens\n0.0,1000,{output_tokens}\n")
    spec = KEEP_SPEC.format(keep="{percentile: 99}").replace("azure-conversation", "./one.csv")
    costs, plan = _costs(module_database, tmp_path, spec)
    assert not plan.unmet
    assert {name: each.is_kept for name, each in plan.attainment.items()} == {
        f"{MODEL}/prefill": True,
        f"{MODEL}/decode": True,
    }
    templates = obtain(costs.recipe, costs.session.store, lambda *_: None)
    drawn = SimulatedAttainment(costs.recipe, templates, seed=21, is_even=False)(plan, costs.snapshot)
    assert min(each.share for each in drawn.values()) >= 0.985


def test_a_trace_of_one_request_is_a_demand(module_database: Database, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("arrival_s,input_tokens,output_tokens\n0.0,1000,120\n")
    spec = KEEP_SPEC.format(keep="{percentile: 99}").replace("requests_per_s: 20", "trace: ./one.csv")
    costs, plan = _costs(module_database, tmp_path, spec)
    (demand,) = costs.snapshot.demand
    assert 0 < demand.requests_per_s <= 1
    assert not plan.unmet
    assert replace(plan, attainment={}) != plan
    assert all(each.is_kept for each in plan.attainment.values())
