"""Placements as units of executors: what is read, what is refused, and ids that stay."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates_lib.sources.graph_record import CELL, EXECUTOR, GpuExecutor, GraphRecord
from templates_lib.sources.listed_source import ListedSource, ListedTemplate
from templates_lib.sources.pipeline_record import pipeline_placement, pipeline_template_id
from templates_lib.sources.placement_checks import PlacementError, PlacementProblem, check_components
from templates_lib.sources.placement_kinds import PLACEMENT_KINDS, executors_of, gpu_executors, unit_of
from templates_lib.values.placement import Executor, Placement, Share, UnitPlacement
from templates_lib.values.template import OperatingPoint, ServingTemplate, Software
from templates_lib.values.work import Unit, WorkClass
from tests.templates_lib.units import CONFIG, executor, unit_template

SOFTWARE = Software("m", "r", "bf16", "vllm", "lockstep-v1", "chat")


def pipeline() -> ServingTemplate:
    stages: Any = [
        (3, [("L4:1/n25", 1, 1.0, 1, 1, 1, 1, 8, 64, 40)]),
        (5, [("L4:1/n25", 1, 1.0, 1, 1, 1, 1, 0, 512, 100)]),
    ]
    nodes, placement = {"L4:1/n25": 2}, pipeline_placement(stages)
    s = SOFTWARE
    parts = (s.model, s.model_revision, s.dtype, s.engine, s.dispatch, nodes, placement, s.served_as)
    return ServingTemplate(pipeline_template_id(s, nodes, placement), *parts)


def test_ids_of_stored_templates_stay() -> None:
    assert pipeline().id == "624212a60bfbb16cbb7ae4e6b0a2b3a0"


def test_a_pipeline_is_the_unit_with_one_executor_on_nodes_of_its_own() -> None:
    (only,) = unit_of(pipeline()).executors
    assert (only.component, only.engine, only.dtype, only.slots) == ("chat", "vllm", "bf16", ((0,), (1,)))
    assert [stage.layers for stage in only.stages] == [3, 5]
    assert unit_of(pipeline()).compute(0) == {only.id: 1}


def test_a_unit_is_read_back_from_plain_values() -> None:
    shares = Share((), 0.25, 40), Share((), 0.75)
    both = executor("a", ((0,), (1,)), share=shares[0]), executor("b", ((1, 0),), share=shares[1])
    template = unit_template(*both, nodes={CONFIG: 2})
    stored = msgspec.json.decode(msgspec.json.encode(template), type=ServingTemplate)
    unit = unit_of(stored)
    assert unit == UnitPlacement(both)
    assert unit.slots == (CONFIG, CONFIG)
    assert unit.compute(1) == {"a": Fraction(1, 4), "b": Fraction(3, 4)}


BAD: dict[str, tuple[tuple[Executor, ...], dict[str, int], PlacementProblem, str]] = {
    "no such slot": ((executor("a", ((0,), (2,))),), {CONFIG: 2}, PlacementProblem.SLOT, "'a': there is no slot 2"),
    "a slot twice": ((executor("a", ((0,), (0,))),), {CONFIG: 1}, PlacementProblem.SLOT, "'a': give each node"),
    "a node idle": ((executor("a"),), {CONFIG: 2}, PlacementProblem.SLOT, "the template has"),
    "other node": ((executor("a"),), {"large": 1}, PlacementProblem.SLOT, "the template has"),
    "slots of other stages": (
        (replace(executor("a"), slots=((0, 1),)),), {CONFIG: 1}, PlacementProblem.SLOT, "'a': give",
    ),
    "engine": ((executor("a", engine="ecko"),), {CONFIG: 1}, PlacementProblem.ENGINE, "'a': engine 'ecko' .*'echo'"),
    "share": ((executor("a", share=Share((), 1.5)),), {CONFIG: 1}, PlacementProblem.SHARE, "'a': its share"),
    "compute": (
        (executor("a", share=Share((), 0.5)), executor("b", share=Share((), 0.6))),
        {CONFIG: 1}, PlacementProblem.SHARE, "'a' 0.5, 'b' 0.6",
    ),
    "device": (
        (executor("a", share=Share((0, 1), 0.5)), executor("b", share=Share((1,), 0.6)), executor("c")),
        {CONFIG: 1}, PlacementProblem.SHARE, "'a' 0.5, 'b' 0.6",
    ),
    "nothing left": (
        (executor("a", share=Share((), 1.0)), executor("b")), {CONFIG: 1}, PlacementProblem.SHARE, "'b' 0",
    ),
    "id twice": ((executor("a"), executor("a")), {CONFIG: 1}, PlacementProblem.FORM, "id of its own: a"),
    "id": ((executor("../a"),), {CONFIG: 1}, PlacementProblem.FORM, "'../a': an id is"),
    "none": ((), {CONFIG: 1}, PlacementProblem.FORM, "one executor or more"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_with_which_executor(case: str) -> None:
    executors, nodes, problem, words = BAD[case]
    with pytest.raises(PlacementError, match=words) as caught:
        unit_of(unit_template(*executors, nodes=nodes))
    assert caught.value.problem is problem
    assert executors_of(unit_template(*executors, nodes=nodes)) is None


def test_a_unit_of_another_form_and_a_kind_that_is_not_registered_are_refused() -> None:
    with pytest.raises(PlacementError, match="no placement of kind 'unit'"):
        unit_of(unit_template(executor("a"), executors=[{"id": 7}]))
    with pytest.raises(PlacementError, match="of kind 'mesh' are not served yet") as caught:
        unit_of(replace(pipeline(), placement=Placement("mesh", 1, {})))
    assert caught.value.problem is PlacementProblem.KIND


READING = GpuExecutor(("vision",), 1, ((0,), (1,)), {"vision/image-text-to-text": 3})
BOTH = GpuExecutor(("vision", "language"), 2, ((2, 3),), {"language/text-to-text": 8})


def of_components(*groups: GpuExecutor, kind: str = CELL, node: str = "A100-80:4/n100", engine: str = "echo") -> Any:
    software = Software("qwen", "r", "bf16", engine, "request-static-v1", "vl")
    return GraphRecord(kind, software, "s", "f", groups, ()).template({node: 1})


@pytest.mark.parametrize("kind", [EXECUTOR, CELL])
def test_replicas_of_components_are_executors_on_devices_of_their_own(kind: str) -> None:
    template = of_components(READING, BOTH, kind=kind)
    unit = unit_of(template)
    assert [(each.graph and each.graph.components, each.share.devices) for each in unit.executors] == [
        (("vision",), (0,)), (("vision",), (1,)), (("vision", "language"), (2, 3)),
    ]  # fmt: skip
    assert {(each.component, each.engine, each.dtype) for each in unit.executors} == {("vl", "echo", "bf16")}
    assert len({each.id for each in unit.executors}) == 3
    assert unit.slots == ("A100-80:4/n100",)
    assert list(unit.compute(0).values()) == [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    assert unit.component_shares == {"vl": 1}
    assert gpu_executors(template) == (READING, BOTH)
    assert gpu_executors(pipeline()) == ()


def test_a_part_of_a_graph_does_what_all_its_components_are_in() -> None:
    (_, _, both) = unit_of(of_components(READING, BOTH)).executors
    assert both.graph is not None
    done = ("vision", "vision+language", "language", "vision+speech", "speech")
    assert [both.graph.does(phase) for phase in done] == [True, True, True, False, False]


BAD_COMPONENTS: dict[str, tuple[tuple[GpuExecutor, ...], PlacementProblem, str]] = {
    "a device twice": (
        (READING, msgspec.structs.replace(BOTH, devices=((1, 2),))),
        PlacementProblem.SHARE,
        "0.vision|1.vision",
    ),
    "a device beyond": (
        (msgspec.structs.replace(BOTH, devices=((3, 4),)),),
        PlacementProblem.SHARE,
        "no device 4: A100-80:4/n100 has",
    ),
    "other devices": (
        (msgspec.structs.replace(BOTH, devices=((0,),)),),
        PlacementProblem.SHARE,
        "vision.language has .* takes 2",
    ),
    "no components": ((msgspec.structs.replace(BOTH, components=()),), PlacementProblem.FORM, "one component or more"),
    "none": ((), PlacementProblem.FORM, "one executor or more"),
}


@pytest.mark.parametrize("case", BAD_COMPONENTS)
def test_what_is_wrong_with_components_is_said(case: str) -> None:
    groups, problem, words = BAD_COMPONENTS[case]
    with pytest.raises(PlacementError, match=words) as caught:
        unit_of(of_components(*groups))
    assert caught.value.problem is problem


def test_components_share_one_node_and_name_an_engine_that_there_is_or_none_yet() -> None:
    template = of_components(READING)
    with pytest.raises(PlacementError, match="share one node"):
        unit_of(replace(template, nodes={"A100-80:4/n100": 2}))
    with pytest.raises(PlacementError, match="not registered"):
        unit_of(of_components(READING, engine="ecko"))
    assert executors_of(of_components(READING, engine="")) is not None
    assert executors_of(of_components(READING, node="a-machine-of-ones-own")) is not None


@pytest.mark.parametrize("kind", PLACEMENT_KINDS)
def test_a_form_of_a_later_release_and_another_form_are_refused(kind: str) -> None:
    template = pipeline()
    with pytest.raises(PlacementError, match="later release") as caught:
        unit_of(replace(template, placement=replace(template.placement, kind=kind, version=99)))
    assert caught.value.problem is PlacementProblem.KIND
    with pytest.raises(PlacementError, match=f"is no placement of kind '{kind}'") as caught:
        unit_of(replace(template, placement=Placement(kind, 1, {"executors": 7})))
    assert caught.value.problem is PlacementProblem.FORM


def listed(*executors: Executor, component: str = "a", kind: str = "unit") -> ListedSource:
    template = unit_template(*executors)
    placement = replace(template.placement, kind=kind)
    work = WorkClass("w", component, "encode", Unit.INVOCATION, "s", 100.0)
    return ListedSource(
        (work,), (ListedTemplate(template.software, template.nodes, placement, (OperatingPoint({"w": 1.0}),)),)
    )


def test_a_listed_unit_is_checked_and_one_of_another_system_is_not() -> None:
    assert listed(executor("a"), executor("b")).templates
    assert listed(executor("b"), kind="mesh").templates
    with pytest.raises(ValueError, match=r"templates\[0\].*no executor for component 'a'; there are some for b"):
        listed(executor("b"))
    with pytest.raises(ValueError, match="is not registered"):
        listed(executor("a", engine="none"))
    check_components(unit_of(unit_template(executor("a"))), ["a"])


@given(
    st.lists(
        st.tuples(st.frozensets(st.integers(0, 3), max_size=3), st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])),
        min_size=1,
        max_size=4,
    )
)
def test_a_unit_that_is_accepted_never_has_more_of_a_node_than_there_is(
    shares: list[tuple[frozenset[int], float]],
) -> None:
    executors = [executor(f"e{n}", share=Share(tuple(sorted(d)), c)) for n, (d, c) in enumerate(shares)]
    try:
        unit = unit_of(unit_template(*executors))
    except PlacementError:
        return
    for by_executor in unit.compute_by_device(0):
        assert sum(by_executor.values()) <= 1
    assert unit.compute(0).keys() == {each.id for each in executors}
    assert all(share > 0 for share in unit.compute(0).values())
