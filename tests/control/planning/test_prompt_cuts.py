"""Cuts of prompts by length, chosen from a workload, and what the fleet costs with them."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.planning.cut_costs import CutCurve, better_cuts, cut_curve, cuttable
from control.planning.objective_costs import ObjectiveCosts
from control.planning.objectives import models_of, parts_of
from control.planning.prompt_cuts import EVEN_WORK, checked_percents, cut_at, cut_snapshot, cuts_of, whole_model
from control.planning.recipe import PipelineRecipe, Recipe
from control.planning.session import PlanningSession
from templates_lib.apps.app import llm_app
from templates_lib.apps.served_model import ServedModel
from templates_lib.load.arrivals import Arrivals
from templates_lib.load.workload import WorkloadShape, joined_prompts, split_prompts
from templates_lib.models.catalogue import load_models
from templates_lib.values.plan import Plan
from templates_lib.values.settings import SloSplit
from templates_lib.values.slo import Slo
from tests.control.planning.worlds import KEEP_SPEC, NOON, ROUGHLY, world_of

MODEL = "gpt-oss-20b"
SPEC = KEEP_SPEC.format(keep="{percentile: 95}")
lengths = st.lists(st.tuples(st.integers(1, 9_000), st.integers(1, 500)), min_size=1, max_size=60)


def recipe_of(folder: Path, spec: str = SPEC) -> Recipe:
    return Recipe((world_of(folder, spec).recipe,))


def costs_of(database: Database, folder: Path, spec: str) -> tuple[ObjectiveCosts, Plan]:
    session = PlanningSession(
        PostgresLibraries(database), PostgresPlans(database), lambda *_: None, time.perf_counter, attainment=ROUGHLY
    )
    recording, templates = session.record(world_of(folder, spec), NOON)
    report = session.plan(recording, templates, baselines=False)
    assert recording.recipe is not None
    return ObjectiveCosts(session, recording.recipe, report.snapshot, templates.library), report.plan


@settings(max_examples=40)
@given(lengths, st.integers(0, 10_000))
def test_a_cut_is_a_partition_of_the_workload(pairs: list[tuple[int, int]], at: int) -> None:
    prompt, output = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    whole = WorkloadShape("own", prompt, output, units={"images": prompt.astype(np.float64) % 3})
    app = llm_app(ServedModel("talk", next(iter(load_models().values())), Slo(900, 60, max_prompt_tokens=at), whole))
    parts = [(each.share * len(pairs), each.served.shape) for each in app.request_types]
    assert sum(requests for requests, _ in parts) == pytest.approx(len(pairs))
    for requests, shape in parts:
        assert len(shape.prompt_tokens) == pytest.approx(requests)
    assert sum(shape.prompt_tokens.sum() for _, shape in parts) == prompt.sum()
    assert sum(shape.output_tokens.sum() for _, shape in parts) == output.sum()
    split = split_prompts(whole, at)
    if split.short is not None and split.long is not None:
        assert split.short.prompt_tokens.max() <= at < split.long.prompt_tokens.min()
        again = joined_prompts(split.short, split.long, at)
        assert again.id == whole.id
        rows = sorted(zip(again.prompt_tokens, again.output_tokens, again.units["images"], strict=True))
        assert rows == sorted(zip(prompt, output, whole.units["images"], strict=True))


@settings(max_examples=40)
@given(lengths.filter(lambda pairs: len({p for p, _ in pairs}) > 1), st.lists(st.floats(0.1, 99.9), max_size=5))
def test_cuts_divide_the_workload_where_they_say(pairs: list[tuple[int, int]], percents: list[float]) -> None:
    prompt, output = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    slo = Slo(900, 60, queueing=True)
    served = ServedModel("talk", next(iter(load_models().values())), slo, WorkloadShape("own", prompt, output))
    none, *cuts = cuts_of(_recipe_with(served), "talk", percents)
    assert (none.max_prompt_tokens, none.long_share, none.long_work) == (0, 0.0, 0.0)
    assert [cut.max_prompt_tokens for cut in cuts] == sorted({cut.max_prompt_tokens for cut in cuts})
    work = [abs(prompt[prompt <= length].sum() / prompt.sum() - 0.5) for length in sorted({*prompt})[:-1]]
    for cut in cuts:
        longer = prompt > cut.max_prompt_tokens
        assert 0 < longer.sum() < len(prompt)
        assert cut.long_share == pytest.approx(longer.mean())
        assert cut.long_work == pytest.approx(prompt[longer].sum() / prompt.sum())
        if cut.chosen == EVEN_WORK:
            assert abs(0.5 - cut.long_work) == pytest.approx(min(work))
        else:  # no shorter prompt would leave as much below
            percent = float(cut.chosen.partition(" ")[0])
            assert (prompt < cut.max_prompt_tokens).mean() < percent / 100 + 1e-3
            assert 1 - cut.long_share > percent / 100 - 1e-3


def _recipe_with(served: ServedModel) -> Recipe:
    return Recipe((PipelineRecipe((served,), (), (), 1, 12.0, SloSplit.EVEN),))


def test_what_cannot_be_cut_is_said(tmp_path: Path) -> None:
    for bad in (0.0, 100.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="more than 0 and less than 100 %"):
            checked_percents((bad,))
    with pytest.raises(ValueError, match="20 are the most"):
        checked_percents(map(float, range(1, 22)))
    recipe = recipe_of(tmp_path)
    with pytest.raises(ValueError, match=f"did you mean '{MODEL}'"):
        cuts_of(recipe, "gpt-oss-2b")
    with pytest.raises(ValueError, match="promises nothing to requests that wait"):
        cuts_of(recipe_of(tmp_path, KEEP_SPEC.format(keep="throughput")), MODEL)
    (tmp_path / "one.csv").write_text("arrival_s,input_tokens,output_tokens\n0.0,1000,12\n1.0,1000,15\n")
    of_one_length = recipe_of(tmp_path, SPEC.replace("azure-conversation", "./one.csv"))
    with pytest.raises(ValueError, match="every prompt of its workload has 1,000 tokens"):
        cuts_of(of_one_length, MODEL)
    assert (cuttable(recipe), cuttable(of_one_length)) == ((MODEL,), ())


def test_bands_keep_the_objectives_of_the_whole_and_its_share_of_bursts(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, SPEC.replace("requests_per_s: 20", "requests_per_s: 20, arrivals: {cv: 3}"))
    whole = whole_model(recipe, MODEL)
    cut, app = cut_at(recipe, MODEL, 2000)
    short, longer = models_of(cut)[MODEL]
    assert replace(short.slo, max_prompt_tokens=0) == longer.slo == whole.slo
    assert [each.arrivals.share for each in (short, longer)] == [each.share for each in app.request_types]
    again = whole_model(cut, MODEL)
    assert (again.name, again.slo, again.arrivals.share) == (whole.name, whole.slo, 1.0)
    assert sorted(again.shape.prompt_tokens) == sorted(whole.shape.prompt_tokens)
    uncut, _ = cut_at(cut, MODEL, 0)
    assert [each.name for each in models_of(uncut)[MODEL]] == [MODEL]


@pytest.mark.parametrize("gaps", [np.zeros(0), np.array([0.0, 0.0, 0.0, 4.0])])
def test_a_share_of_bursts_comes_at_its_rate_and_less_in_bursts(gaps: np.ndarray) -> None:
    """Of a renewal process whose gaps have a coefficient of variation c, a share s has one of sqrt(1 - s + s c²)."""
    every = Arrivals(np.sqrt(3.0), gaps)
    times = replace(every, share=0.25).times(50.0, 4_000.0, np.random.default_rng(0))
    assert len(times) == pytest.approx(200_000, rel=0.02)
    between = np.diff(times)
    if not len(gaps):
        assert between.std() / between.mean() == pytest.approx(np.sqrt(0.75 + 0.25 * 3), rel=0.02)
    assert between.std() / between.mean() < np.sqrt(3.0)
    for share in (0.0, 1.5):
        with pytest.raises(ValueError, match="at most 1"):
            replace(every, share=share)


def test_a_cut_costs_what_a_spec_that_has_it_costs(module_database: Database, tmp_path: Path) -> None:
    """And is compared with no cut, whichever of both is in force."""
    costs, plan = costs_of(module_database, tmp_path, SPEC)
    heard: list[tuple[int, int]] = []
    curve = cut_curve(costs, plan, MODEL, (), lambda _, __, *count: heard.append(count))
    none, cut = curve.points
    assert (curve.now, none.value, none.usd_per_hour, none.chosen) == (0, 0, plan.usd_per_hour, "")
    assert (heard, cut.chosen) == ([(1, 1)], EVEN_WORK)
    _check_cheapest(curve, plan)

    spec = SPEC.replace("tpot_ms: 60,", f"tpot_ms: 60, max_prompt_tokens: {cut.value},")
    cut_costs, cut_plan = costs_of(module_database, tmp_path, spec)
    assert cut.usd_per_hour == cut_plan.usd_per_hour
    recipe, app = cut_at(costs.recipe, MODEL, cut.value)
    made = cut_snapshot(costs.snapshot, recipe, cut_costs.library, parts_of(costs.recipe, MODEL), app)
    there = cut_costs.snapshot
    assert (made.demand, made.routes, made.disks, made.barred) == (
        there.demand,
        there.routes,
        there.disks,
        there.barred,
    )
    assert made.settings == there.settings.capped({})

    back = cut_curve(cut_costs, cut_plan, MODEL, ())
    none, in_force = back.points
    assert (back.now, in_force.value, in_force.usd_per_hour) == (cut.value, cut.value, cut_plan.usd_per_hour)
    assert none.usd_per_hour == pytest.approx(plan.usd_per_hour, rel=0.1)  # the same requests in another order
    _check_cheapest(back, cut_plan)


@pytest.mark.slow
def test_a_cut_serves_more_where_the_nodes_that_long_prompts_need_are_few(
    module_database: Database, tmp_path: Path
) -> None:
    """An L4 computes no prompt of 12,000 tokens in 0.9 s, so that no pool for all of them has one; a band does."""
    of_two = "".join(f"{n}.0,{12_000 if n % 5 == 0 else 500},40\n" for n in range(100))
    (tmp_path / "two.csv").write_text(f"arrival_s,input_tokens,output_tokens\n{of_two}")
    supply = "aws/us-east-2,L40S:1/n10,on-demand,3\naws/us-east-2,L4:1/n10,on-demand,12\n"
    (tmp_path / "supply.csv").write_text(f"zone,config,market,available\n{supply}")
    spec = SPEC.replace("azure-conversation", "./two.csv").replace("ttft_ms: 1500", "ttft_ms: 900")
    spec = spec.replace("clouds:", "offers: {by_region: true, availability: supply.csv}\nclouds:")
    costs, plan = costs_of(module_database, tmp_path, spec.replace("L4]}", "L4], counts: [1]}"))
    unmet = sum(plan.unmet.values()) / 20
    assert unmet > 0.1
    (better,) = better_cuts(costs, plan)
    assert (better.model, better.now, better.then) == (MODEL, 0, 500)
    found = costs.cut(MODEL, 500)
    assert better.more_served == pytest.approx(unmet - sum(found.plan.unmet.values()) / 20)
    assert better.more_served > 0.1
    assert "no cut -> slo.max_prompt_tokens: 500, 80 % of the requests below" in better.text
    assert f"serves {better.more_served:.1%} more of the demand" in better.text


def _check_cheapest(curve: CutCurve, plan: Plan) -> None:
    kept = [point for point in curve.points if point.is_kept and point.unmet_share < 1e-6 and point.usd_per_hour]
    least = min(point.usd_per_hour for point in kept)
    (named,) = (point.usd_per_hour for point in kept if point.value == curve.cheapest)
    assert named is not None
    assert named <= least + 0.003 * plan.usd_per_hour
    assert curve.saves_usd_per_hour == pytest.approx(plan.usd_per_hour - named)
    assert curve.saves_usd_per_hour >= 0
