"""What nodes are told, and what their reports mean for instances."""

from dataclasses import replace

import pytest

from agents.messages.to_gateway import SchedulerState
from agents.messages.to_hub import NodeReport
from agents.messages.to_node import Share
from control.hub.board import Board
from control.hub.gang import Gang, GangExecutor, GangPlace
from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from templates_lib.values.placement import ONLY
from templates_lib.values.speculation import Speculation
from tests.control.hub.boards import (
    FILES,
    GATEWAYS,
    LOST_AFTER_S,
    board,
    connected,
    deployed,
    key,
    node,
    nodes,
    over_the_wire,
    run_of,
    says,
    scheduler,
)

FIRST, SECOND, LAST = nodes("i1")
S = InstanceState
WITHOUT_WORK = [s for s in S if s not in (S.LOADING, S.READY, S.DRAINING)]


def kinds(made: Board, now_s: float = 1.0) -> list[tuple[str, EventKind]]:
    return [(instance, event.kind) for instance, event in made.events(now_s)]


def test_the_first_node_runs_the_scheduler_for_all_and_nobody_a_stage_before_it_is_there() -> None:
    made = connected(deployed("i1", S.LOADING))
    first, second, last = (made.work(name) for name in nodes("i1"))
    assert first is not None
    assert (first.instance, run_of(first).model, first.drain, run_of(first).stage) == ("i1", "chat", False, None)
    run = run_of(first).scheduler
    assert run is not None
    assert [[(s.name, s.weight, s.batch_cap, s.kv_blocks) for s in stage] for stage in run.stages] == [
        [(FIRST, 0.25, 4, 24), (SECOND, 0.75, 8, 48)],
        [(LAST, 1.0, 4, 24)],
    ]
    assert run.workers == {key(name): name for name in nodes("i1")}
    assert run.gateways == GATEWAYS
    for work in (second, last):
        assert work is not None
        assert (work.instance, run_of(work).scheduler, run_of(work).stage) == ("i1", None, None)


def test_the_scheduler_is_told_whether_prompts_share_kv_blocks() -> None:
    told = []
    for files in (FILES, replace(FILES, prefix_cache=False)):
        made = connected(replace(deployed("i1", S.LOADING), files={ONLY: files}))
        told.append(run_of(made.work(FIRST)).prefix_cache)
    assert told == [True, False]


def test_the_scheduler_is_told_how_answers_are_drafted() -> None:
    files = {ONLY: replace(FILES, speculation=Speculation(3, 4))}
    made = connected(replace(deployed("i1", S.LOADING), files=files))
    assert run_of(made.work(FIRST)).speculation == Speculation(3, 4)


def test_stages_get_the_layers_of_their_place_once_the_scheduler_says_where_it_is() -> None:
    made = connected(deployed("i1", S.LOADING))
    made.reported(FIRST, says("i1"))
    stages = []
    for name in nodes("i1"):
        work = made.work(name)
        assert work is not None
        stage = run_of(over_the_wire(work)).stage
        assert stage is not None
        assert (stage.scheduler, stage.scheduler_key) == (scheduler("i1").stages, scheduler("i1").public_key)
        stages.append((stage.first_layer, stage.layers, stage.kv_blocks, stage.memory_mib, stage.dtype, stage.weights))
    assert stages == [
        (0, 4, 24, 100, "float32", "path:/weights"),
        (0, 4, 48, 200, "float32", "path:/weights"),
        (4, 2, 24, 100, "float32", "path:/weights"),
    ]


def test_replicas_inside_a_node_are_peers_and_its_workers_are_told_their_share() -> None:
    known = deployed("i1", S.LOADING)
    places = (GangPlace("wide:8/n10", 0, 0, 6, 1.0, 8, 64, 50, 2, True, 2, 3, True),)
    made = connected(
        replace(known, gang=Gang((GangExecutor(places, "torch", "fp32"),)), nodes=(FIRST,), memory_mib=(100,))
    )
    made.reported(FIRST, says("i1"))
    work = made.work(FIRST)
    assert work is not None
    run = run_of(over_the_wire(work))
    assert run.scheduler is not None
    assert run.scheduler.stages == (tuple(Share(FIRST, 0.5, 4, 32, 25, 3, replica, True) for replica in (0, 1)),)
    assert run.scheduler.workers == {key(FIRST): FIRST}
    stage = run.stage
    assert stage is not None
    assert (stage.first_layer, stage.layers, stage.kv_blocks, stage.memory_mib) == (0, 6, 25, 100)
    assert (stage.shards, stage.whole_experts, stage.replicas, stage.parts, stage.joint) == (2, True, 2, 3, True)


def test_an_engine_of_whole_models_is_told_its_weights_with_its_scheduler_and_gets_no_stage() -> None:
    place = GangPlace("L4:4/n10", 0, 0, 6, 1.0, 8, 64, 24, shards=2, parts=2)
    gang = Gang((GangExecutor((place,), "vllm", "mxfp4"),))
    one = replace(deployed("i1", S.LOADING), gang=gang, nodes=(FIRST,), memory_mib=(0,))
    made = connected(one)
    for _ in range(2):
        work = made.work(FIRST)
        assert work is not None
        run = run_of(work)
        assert run.scheduler is not None
        assert run.whole is not None
        assert (run.whole.dtype, run.whole.shards, run.whole.parts, run.stage) == ("bfloat16", 2, 2, None)
        assert run.whole.weights == next(iter(one.files.values())).weights
        assert over_the_wire(work) == work
        assert work.of_one is None  # an agent of protocol 1 knows no such work
        made.reported(FIRST, says("i1"))
    assert gang.protocol > replace(gang, executors=(replace(gang.executors[0], engine="torch"),)).protocol


@pytest.mark.parametrize("state", WITHOUT_WORK)
def test_an_instance_that_is_not_to_run_has_no_work(state: InstanceState) -> None:
    made = connected(deployed("i1", state))
    made.reported(FIRST, says("i1", state=SchedulerState.READY))
    assert [made.work(name) for name in nodes("i1")] == [None, None, None]


def test_nobody_has_work_before_the_gang_is_whole_and_all_its_keys_are_known() -> None:
    made = connected(deployed("i1", S.LOADING))
    made.know({key(name): name for name in (FIRST, SECOND)})
    assert [made.work(name) for name in nodes("i1")] == [None, None, None]
    made = connected(deployed("i1", S.LOADING, missing=[2]))
    assert [made.work(name) for name in (FIRST, SECOND)] == [None, None]
    assert made.work("a stranger") is None


def test_a_draining_instance_is_told_so_and_keeps_its_work() -> None:
    made = connected(deployed("i1", S.DRAINING))
    made.reported(FIRST, says("i1", state=SchedulerState.READY, running=2))
    for name in nodes("i1"):
        work = made.work(name)
        assert work is not None
        assert work.drain
        assert run_of(work).stage is not None


def test_an_instance_of_a_model_that_is_gone_may_only_finish() -> None:
    made = connected(replace(deployed("i1", S.DRAINING), files={}))
    made.reported(FIRST, says("i1", state=SchedulerState.READY, running=1))
    for name in nodes("i1"):
        work = made.work(name)
        assert work is not None
        assert (over_the_wire(work).drain, run_of(work).scheduler, run_of(work).stage) == (True, None, None)
    made.reported(FIRST, says("i1", state=SchedulerState.DRAINING))
    assert kinds(made) == [("i1", EventKind.DRAINED)]


def test_an_instance_goes_on_when_every_agent_is_connected_and_known_by_its_key() -> None:
    made = board(deployed("i1", S.BOOTSTRAPPING))
    for name in nodes("i1"):
        assert kinds(made) == []
        made.joined(name, 0.5)
    assert kinds(made) == [("i1", EventKind.AGENTS_UP)]
    made.know({key(FIRST): FIRST})
    assert kinds(made) == []


def test_loading_ends_when_the_scheduler_says_ready_and_not_before() -> None:
    made = connected(deployed("i1", S.LOADING))
    for said, expected in ((None, []), (SchedulerState.LOADING, []), (SchedulerState.READY, [EventKind.LOADED])):
        made.reported(FIRST, says("i1", state=said))
        assert kinds(made) == [("i1", kind) for kind in expected]
    made.deploy([deployed("i1", S.READY)])
    assert kinds(made) == []


def test_draining_ends_when_the_scheduler_drains_and_holds_nothing() -> None:
    made = connected(deployed("i1", S.DRAINING))
    for report in (
        says("i1"),
        says("i1", state=SchedulerState.READY),
        says("i1", state=SchedulerState.DRAINING, running=1),
        says("i1", state=SchedulerState.DRAINING, waiting=1),
    ):
        made.reported(FIRST, report)
        assert kinds(made) == []
    made.reported(FIRST, says("i1", state=SchedulerState.DRAINING))
    assert kinds(made) == [("i1", EventKind.DRAINED)]


@pytest.mark.parametrize("state", [S.BOOTSTRAPPING, S.LOADING, S.READY, S.DRAINING])
@pytest.mark.parametrize("name", nodes("i1"))
def test_what_a_node_cannot_do_breaks_its_instance_with_the_reason_and_the_node(
    state: InstanceState, name: str
) -> None:
    made = connected(deployed("i1", state), deployed("i2", state))
    made.reported(name, NodeReport("i1", failure="no weights here"))
    events = [(i, e.kind, e.reason) for i, e in made.events(1.0) if e.kind is not EventKind.AGENTS_UP]
    assert events == [("i1", EventKind.BROKE, f"no weights here ({name})")]


def test_a_reason_is_shown_to_people_and_stored_so_it_holds_no_control_characters() -> None:
    made = connected(deployed("i1", S.READY))
    made.reported(FIRST, NodeReport("i1", failure="bad\x00 \x1b[31mred\nline"))
    ((_, event),) = made.events(1.0)
    assert event.reason == f"bad   [31mred line ({FIRST})"


def test_what_is_said_of_another_instance_counts_for_nobody() -> None:
    made = connected(deployed("i1", S.LOADING), deployed("i2", S.LOADING))
    made.reported(FIRST, says("i2", state=SchedulerState.READY, failure="broken"))
    made.reported("a stranger", says("i1", failure="broken"))
    assert kinds(made) == []
    assert (made.scheduler("i1"), made.scheduler("i2")) == (None, None)


def test_only_the_first_node_may_say_where_the_scheduler_is() -> None:
    made = connected(deployed("i1", S.LOADING))
    made.reported(SECOND, says("i1", state=SchedulerState.READY))
    assert made.scheduler("i1") is None
    assert kinds(made) == []


@pytest.mark.parametrize("state", [S.LOADING, S.READY, S.DRAINING])
def test_a_node_is_lost_after_its_time_and_not_before(state: InstanceState) -> None:
    made = connected(deployed("i1", state))
    made.left(LAST, 100.0)
    assert kinds(made, 100.0 + LOST_AFTER_S) == []
    ((instance, event),) = made.events(100.5 + LOST_AFTER_S)
    assert (instance, event.kind) == ("i1", EventKind.NODE_LOST)
    assert LAST in event.reason


def test_a_node_that_comes_back_in_time_is_not_lost_and_its_silence_begins_anew() -> None:
    made = connected(deployed("i1", S.READY))
    made.left(LAST, 100.0)
    made.joined(LAST, 109.0)
    assert kinds(made, 200.0) == []
    made.left(LAST, 200.0)
    assert kinds(made, 209.0) == []
    assert kinds(made, 211.0) == [("i1", EventKind.NODE_LOST)]


def test_while_reports_are_missing_nothing_is_told_wrong() -> None:
    """A node that has just come back has not reported yet: its scheduler, and its load, are unknown, not gone."""
    made = connected(deployed("i1", S.READY))
    made.reported(FIRST, says("i1", state=SchedulerState.READY, running=3))
    made.left(FIRST, 1.0)
    made.joined(FIRST, 2.0)
    assert kinds(made, 3.0) == []
    assert made.scheduler("i1") is None
    work = made.work(LAST)
    assert work is not None
    assert (work.instance, run_of(work).stage) == ("i1", None)


def test_a_control_plane_that_starts_again_waits_for_all_nodes_as_long_as_for_one_that_is_silent() -> None:
    made = board(deployed("i1", S.READY), deployed("i2", S.LOADING), deployed("i3", S.BOOTSTRAPPING), now_s=1000.0)
    assert kinds(made, 1000.0 + LOST_AFTER_S) == []
    assert kinds(made, 1000.1 + LOST_AFTER_S) == [("i1", EventKind.NODE_LOST), ("i2", EventKind.NODE_LOST)]
    for name in (*nodes("i1"), *nodes("i2")):
        made.joined(name, 1005.0)
    made.reported(node("i2", 0), says("i2", state=SchedulerState.READY))
    assert kinds(made, 2000.0) == [("i2", EventKind.LOADED)]


def test_one_that_has_stood_by_for_long_misses_no_node_before_it_can_be_heard() -> None:
    made = board(deployed("i1", S.READY), now_s=0.0)
    made.opens(1000.0)
    assert kinds(made, 999.0) == []
    assert kinds(made, 1000.0 + LOST_AFTER_S) == []
    assert kinds(made, 1000.1 + LOST_AFTER_S) == [("i1", EventKind.NODE_LOST)]


def test_a_node_that_is_off_the_record_costs_its_instance_at_once() -> None:
    for state in (S.LOADING, S.READY, S.DRAINING):
        assert kinds(connected(deployed("i1", state, missing=[1]))) == [("i1", EventKind.NODE_LOST)]


def test_a_cause_that_is_known_is_told_rather_than_the_silence_that_follows() -> None:
    made = connected(deployed("i1", S.READY))
    made.reported(FIRST, says("i1", failure="scheduler was ended by SIGKILL"))
    made.left(LAST, 0.0)
    ((_, event),) = made.events(1000.0)
    assert event.kind is EventKind.BROKE


def test_loads_are_of_connected_nodes_and_of_their_present_instance() -> None:
    made = connected(deployed("i1", S.READY))
    made.reported(FIRST, says("i1", state=SchedulerState.READY, running=3, waiting=1))
    made.reported(LAST, says("of old"))
    made.left(SECOND, 1.0)
    loads = made.loads()
    assert set(loads) == {FIRST, LAST}
    assert loads[LAST] is None
    first = loads[FIRST]
    assert first is not None
    assert (first.running, first.waiting, first.scheduler, first.kv_blocks_free) == (3, 1, "ready", 20)


def test_nodes_that_are_gone_from_the_record_are_forgotten_once_they_leave() -> None:
    made = connected(deployed("i1", S.READY))
    made.deploy([])
    assert set(made.loads()) == set(nodes("i1"))
    for name in nodes("i1"):
        made.left(name, 1.0)
    made.deploy([])
    made.deploy([deployed("i1", S.READY)])
    assert kinds(made, LOST_AFTER_S / 2) == []
