"""Utilisation caps make room for how far step times may be off."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from control.allocator import solve
from control.checker import check
from control.explain.certificate import MARGIN, margins
from control.fleet_file.problem import SpecError
from control.planning.recipe import PipelineRecipe
from control.planning.recording import content_version
from control.planning.step_time_margins import step_time_margins
from control.planning.within_budget import given_up
from control.planning.world import read_world
from policies.budget import Allowance
from policies.degradation import Rung
from templates_lib.apps.served_model import HeldModel
from templates_lib.cost.step_time_errors import load_step_time_errors
from templates_lib.values.node_profile import NodeProfile, ProfileErrors
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from tests import factories as make
from tests.control.planning.test_step_time_basis import CONFIGS, MODEL, recipe
from tests.control.planning.worlds import KEEP_SPEC, NOON, world_of
from tests.templates_lib.test_cost_measured import HAND_OFF, PIPELINE

H100, L40S, L4 = CONFIGS
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PROFILE = NodeProfile(
    "s", "2026-11-26", "a machine", "vllm", MODEL.id, MODEL.dtype, L4, cpu_cores=1.0, step_terms_s={},
    errors=ProfileErrors(9, 0.04, 0.2), pipeline=PIPELINE, hand_off=HAND_OFF,
)  # fmt: skip


def pipelines(engine: str, *profiles: NodeProfile) -> PipelineRecipe:
    (source,) = recipe(engine, *profiles).sources
    assert isinstance(source, PipelineRecipe)
    return source


def test_each_phase_leaves_room_for_its_own_error_and_measured_nodes_for_theirs() -> None:
    found, known = step_time_margins(pipelines("vllm", PROFILE), 1.0), load_step_time_errors().engines["vllm"]
    off = known["H100"].estimated.gpu_out
    assert found["qwen/prefill"][H100] == pytest.approx(1 / (1 + off.ttft), abs=1e-4)
    assert found["qwen/decode"][H100] == pytest.approx(1 / (1 + off.tpot), abs=1e-4)
    assert found["qwen/prefill"][L4] == found["qwen/decode"][L4] == pytest.approx(1 / 1.04, abs=1e-4)
    assert found["qwen/prefill"][L40S] < found["qwen/prefill"][L4]
    twice = step_time_margins(pipelines("vllm"), 2.0)
    assert twice["qwen/decode"][H100] == pytest.approx(1 / (1 + 2 * off.tpot), abs=1e-4)
    assert step_time_margins(pipelines("vllm"), 0.0) == {}


def test_an_instance_that_does_both_makes_room_for_the_larger_error() -> None:
    whole = pipelines("vllm")
    served = replace(whole.served[0], disaggregated=False, aggregated=True)
    found = step_time_margins(replace(whole, served=(served,)), 1.0)
    assert found.keys() == {"qwen/aggregated"}
    assert found["qwen/aggregated"][H100] == step_time_margins(whole, 1.0)["qwen/prefill"][H100]


def test_of_several_engines_the_one_that_is_known_least_counts() -> None:
    whole = pipelines("torch", replace(PROFILE, engine="torch"))
    served = replace(whole.served[0], others=(HeldModel("vllm", MODEL),))
    found = step_time_margins(replace(whole, served=(served,)), 1.0)
    assert found["qwen/decode"][L4] == step_time_margins(pipelines("vllm"), 1.0)["qwen/decode"][L4]


def world(of_config: dict[str, float]) -> Snapshot:
    settings = Settings(utilisation_cap=0.8, step_time_margins={"m/serve": of_config} if of_config else msgspec.UNSET)
    offers = [make.offer(L4, "aws/a", 1.0), make.offer(H100, "aws/a", 2.1)]
    return make.snapshot(offers, [make.route("m", {"m/serve": 1.0})], {"m": 48.0}, settings=settings)


LIBRARY = make.library(
    [make.work_class("m/serve")],
    {"small": ({L4: 1}, [{"m/serve": 10.0}]), "large": ({H100: 1}, [{"m/serve": 20.0}])},
)


@pytest.mark.parametrize(
    ("of_config", "planned"),
    [({}, {"small": 6}), ({L4: 0.5}, {"large": 3}), ({L4: 0.5, H100: 0.5}, {"small": 12})],
)
def test_a_plan_rents_what_is_known_well_and_more_of_what_is_not(
    of_config: dict[str, float], planned: dict[str, int]
) -> None:
    snapshot = world(of_config)
    plan = solve(snapshot, LIBRARY)
    assert {each.template_id: each.count for each in plan.instances} == planned
    assert check(plan, snapshot) == ()
    said = list(margins(plan, snapshot))
    assert [each.kind for each in said] == [MARGIN] * any(of_config.get(c) for i in plan.instances for c in i.nodes)


def test_what_leaves_too_little_room_is_found() -> None:
    plan = solve(world({}), LIBRARY)
    assert {each.rule for each in check(plan, world({L4: 0.8}))} == {"capacity"}


def test_snapshots_without_margins_have_the_hash_that_they_had() -> None:
    plain = msgspec.json.decode(msgspec.json.encode(world({})), type=Snapshot)
    assert b"step_time_margins" not in msgspec.json.encode(plain)
    assert content_version(plain) == content_version(world({})) != content_version(world({L4: 0.8}))
    known = msgspec.json.decode(msgspec.json.encode(world({L4: 0.8})), type=Snapshot)
    assert known.settings.cap("m/serve", "", [H100, L4]) == pytest.approx(0.64)


def test_specs_ask_for_one_median_error_and_may_ask_for_none(tmp_path: Path) -> None:
    text = KEEP_SPEC.format(keep="throughput")
    library = make.library([], {})
    given = world_of(tmp_path, text).snapshot(NOON, library).settings
    assert given.margins("gpt-oss-20b/decode")
    none = world_of(tmp_path, text + "policy: {step_time_margin: 0}\n")
    assert none.snapshot(NOON, library).settings.margins("gpt-oss-20b/decode") == {}
    with pytest.raises(SpecError):
        world_of(tmp_path, text + "policy: {step_time_margin: -1}\n")


def test_a_budget_that_does_not_pay_for_the_room_gives_it_up(tmp_path: Path) -> None:
    asked = world_of(tmp_path, KEEP_SPEC.format(keep="throughput"))
    looser = given_up(asked, Rung.LOOSER_CLASS, Allowance(1.0))
    assert asked.fleet.step_time_margin > looser.fleet.step_time_margin == 0


@pytest.mark.parametrize("name", ["coral-core", "coral-extended", "core-promised", "helix-pool"])
def test_the_papers_set_ups_plan_with_profiles_as_they_are(name: str) -> None:
    assert read_world(EXAMPLES / f"{name}.yaml").fleet.step_time_margin == 0
