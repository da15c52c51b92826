"""Boards and hubs with units of several executors."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.messages.to_gateway import SchedulerState
from agents.messages.to_hub import ExecutorReport, NodeReport, SchedulerReport, StageReport
from agents.messages.to_node import Work
from control.hub.board import Board
from control.hub.deployed import Deployed, ModelFiles
from control.hub.gang import Gang, UnplaceableError, gang_of, placed_gang
from control.hub.hub import Hub
from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from templates_lib.values.engines import ENGINES, EngineKind
from templates_lib.values.placement import Share
from tests.agents.messages.protocol_1 import OldNodeReport, OldWork
from tests.control.fleet.fleets import template as layers_template
from tests.control.hub.boards import connected, deployed, key, node, over_the_wire, says, status
from tests.control.hub.test_hub import Keys
from tests.control.lifecycle.worlds import START
from tests.templates_lib.units import CONFIG, TOGETHER, cell_template, executor, unit_template

S = InstanceState
ANYWHERE = "tcp://127.0.0.1:0"
TEMPLATE = unit_template(
    executor("a", ((0,), (1,)), engine="torch", share=Share((), 0.25, 40)),
    executor("b", ((1,),), share=Share((), 0.5)),
    nodes={CONFIG: 2},
)
FILES = {name: ModelFiles(f"model-{name}", "path:/weights", 192, 256) for name in "ab"}


def unit(state: InstanceState, gang: Gang | None = None) -> Deployed:
    names = node("i1", 0), node("i1", 1)
    return Deployed("i1", state, gang_of(TEMPLATE) if gang is None else gang, FILES, names, (100, 100))


def said(name: str, state: SchedulerState = SchedulerState.READY, running: int = 0) -> ExecutorReport:
    at = SchedulerReport("tcp://127.0.0.1:1", "tcp://127.0.0.1:2", key(f"of-{name}"), status(state, running))
    return ExecutorReport(name, at, StageReport(1.0, 50, 0.5))


def report(made: Board, a: ExecutorReport, b: ExecutorReport) -> None:
    made.reported(node("i1", 0), NodeReport("i1", (a,)))
    made.reported(node("i1", 1), NodeReport("i1", (ExecutorReport("a"), b)))


def test_each_node_gets_its_part_of_each_executor_with_its_share() -> None:
    made = connected(unit(S.LOADING))
    first, second = (over_the_wire(made.work(node("i1", place)) or Work()) for place in (0, 1))
    (a,), (rest_of_a, b) = first.runs, second.runs
    assert (a.executor, a.model, a.engine, a.compute, a.restarts) == ("a", "model-a", "torch", 0.25, True)
    assert a.scheduler is not None
    assert [[share.kv_blocks for share in stage] for stage in a.scheduler.stages] == [[40], [40]]
    assert set(a.scheduler.workers.values()) == {node("i1", 0), node("i1", 1)}
    assert (rest_of_a.executor, rest_of_a.scheduler, rest_of_a.stage) == ("a", None, None)
    assert (b.executor, b.engine, b.compute) == ("b", "echo", 0.5)
    assert b.scheduler is not None
    assert set(b.scheduler.workers.values()) == {node("i1", 1)}
    report(made, said("a", SchedulerState.LOADING), said("b"))
    second = over_the_wire(made.work(node("i1", 1)) or Work())
    assert [run.stage and run.stage.scheduler_key for run in second.runs] == [key("of-a"), None]
    assert second.runs[0].stage is not None
    assert second.runs[0].stage.memory_mib == 25


def test_an_instance_is_ready_and_drained_when_all_its_executors_are() -> None:
    made = connected(unit(S.LOADING))
    report(made, said("a", SchedulerState.LOADING), said("b"))
    assert made.events(0.0) == []
    report(made, said("a"), said("b"))
    assert [event.kind for _, event in made.events(0.0)] == [EventKind.LOADED]
    made.deploy([unit(S.DRAINING)])
    report(made, said("a", SchedulerState.DRAINING), said("b", SchedulerState.DRAINING, running=1))
    assert made.events(0.0) == []
    report(made, said("a", SchedulerState.DRAINING), said("b", SchedulerState.DRAINING))
    assert [event.kind for _, event in made.events(0.0)] == [EventKind.DRAINED]


def test_an_executor_that_is_away_fails_nothing_and_its_address_follows() -> None:
    made = connected(unit(S.READY))
    report(made, said("a"), said("b"))
    report(made, ExecutorReport("a"), said("b"))
    assert made.events(0.0) == []
    assert made.scheduler("i1", "a") is None
    assert made.scheduler("i1", "b") == said("b").scheduler
    loads = made.loads()[node("i1", 1)]
    assert loads is not None
    assert loads.executors.keys() == {"b"}
    assert (loads.scheduler, loads.memory_mib) == ("ready", 50)


def of_cell(gang: Gang) -> Deployed:
    files = {each.id: ModelFiles("vl", "path:/weights", 192, 250) for each in gang.executors}
    return Deployed("i1", S.LOADING, gang, files, (node("i1", 0),), (1000,))


def test_the_node_of_a_cell_runs_each_of_its_executors_on_devices_and_a_share_of_its_own() -> None:
    gang = gang_of(cell_template())
    work = over_the_wire(connected(of_cell(gang)).work(node("i1", 0)) or Work())
    assert {(run.model, run.engine, run.restarts) for run in work.runs} == {("vl", "echo", True)}
    assert [(run.devices, run.processor_share) for run in work.runs] == [((0,), 0.25), ((1,), 0.25), ((2, 3), 0.5)]
    limits = [run.scheduler.stages[0][0] for run in work.runs if run.scheduler is not None]
    assert [(each.batch_cap, each.kv_blocks) for each in limits] == [(3, 3 * 16), (3, 3 * 16), (8, 8 * 16)]
    members = [gang.member("i1", each.id) for each in gang.executors]
    assert members == ["i1/0.vision", "i1/1.vision", "i1/2.vision-language"]
    assert work.of_one is None


def test_an_executor_of_components_is_restarted_in_place_also_where_it_is_alone_and_told_the_room_for_tensors() -> None:
    alone = Gang(gang_of(cell_template()).executors[:1])
    deployed = replace(
        of_cell(alone), files={alone.executors[0].id: ModelFiles("vl", "path:/w", 192, 250, slab_mib=96)}
    )
    work = over_the_wire(connected(deployed).work(node("i1", 0)) or Work())
    assert [run.restarts for run in work.runs] == [True]
    assert work.slab_mib == 96
    text = Deployed("i1", S.LOADING, placed_gang(layers_template()), FILES, (node("i1", 0), node("i1", 1)), (100, 100))
    one = over_the_wire(connected(text).work(node("i1", 0)) or Work())
    assert ([run.restarts for run in one.runs], one.slab_mib) == ([False], 0)


def test_an_engine_of_components_is_told_which_and_how_many_requests_it_has_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = EngineKind("", (), scheduler="agents.any", is_whole=True, takes_parts=True)
    monkeypatch.setitem(ENGINES, "any", kind)
    work = over_the_wire(connected(of_cell(gang_of(cell_template("any")))).work(node("i1", 0)) or Work())
    (reading, _, both) = (run.whole for run in work.runs)
    assert reading is not None
    assert both is not None
    assert (reading.components, reading.shards, reading.memory_mib) == (("vision",), 1, 250)
    assert (both.components, both.shards, both.memory_mib) == (("vision", "language"), 2, 500)
    assert both.together == TOGETHER


@pytest.mark.parametrize(("engine", "words"), [("torch", "engine torch serves whole models"), ("", "no engine")])
def test_components_are_not_started_by_an_engine_of_whole_models(engine: str, words: str) -> None:
    with pytest.raises(UnplaceableError, match=f"components vision of vl are not served yet: {words}"):
        gang_of(cell_template(engine))
    assert len(placed_gang(cell_template(engine)).executors) == 3, "what is simulated needs no engine"


def test_components_are_not_cut_over_devices_by_an_engine_that_does_not() -> None:
    with pytest.raises(UnplaceableError, match="vision, language of vl are not served yet: they are to be cut over 2"):
        gang_of(cell_template("components"))


def test_an_agent_of_the_release_before_gets_no_cell() -> None:
    made = connected(of_cell(gang_of(cell_template())))
    made.joined(node("i1", 0), 0.0, 3)
    ((_, event),) = made.events(0.0)
    assert (event.kind, "earlier release" in event.reason) == (EventKind.BROKE, True)
    made.joined(node("i1", 0), 0.0, 4)
    assert made.events(0.0) == []


SHARED = unit_template(
    *(replace(executor(name, ((0,),), engine="torch"), dtype="fp32") for name in "ab"),
    nodes={CONFIG: 1},
    pool_bytes=3 << 20,
)


def test_members_of_a_shared_unit_have_a_pool_turns_at_all_processors_and_numbers() -> None:
    gang = gang_of(SHARED)
    sizes = {"a": {"request_tokens": 120.0, "longest_tokens": 200}, "b": {}}
    files = {name: replace(FILES[name], **sizes[name]) for name in "ab"}
    at = (node("i1", 0),)
    made = connected(Deployed("i1", S.LOADING, gang, files, at, (100,), {"a": 2.0}))
    work = over_the_wire(made.work(at[0]) or Work())
    assert [(run.member, run.compute, run.restarts) for run in work.runs] == [(0, 1.0, True), (1, 1.0, True)]
    assert work.pool is not None
    assert work.pool.bytes == 3 << 20
    a, b = work.pool.members
    assert (a.weights, a.dtype, a.compute) == ("path:/weights", "float32", 1.0)
    assert (a.requests_per_s, a.request_tokens, a.longest_tokens) == (2.0, 120.0, 200)
    assert (b.requests_per_s, b.request_tokens, b.longest_tokens) == (0.0, 256.0, 256)
    made.reported(at[0], NodeReport("i1", (said("a"), said("b"))))
    stages = [run.stage for run in (made.work(at[0]) or Work()).runs]
    assert [stage and stage.memory_mib for stage in stages] == [97, 97], "of weights alone"
    made.deploy([Deployed("i1", S.LOADING, gang.with_kv_share(0.5), files, at, (100,), {"a": 2.0})])
    fewer = made.work(at[0])
    assert fewer is not None
    assert fewer.pool is not None
    assert fewer.pool.bytes == 3 << 19
    assert [member.longest_tokens for member in fewer.pool.members] == [100, 128], "that there is room for one of each"
    made.joined(at[0], 0.0, gang.protocol - 1)
    ((_, event),) = made.events(0.0)
    assert (event.kind, "earlier release" in event.reason) == (EventKind.BROKE, True)
    with pytest.raises(UnplaceableError, match="not simulated"):
        placed_gang(SHARED)


def test_models_share_a_cache_on_one_node_by_the_engine_that_lends_blocks() -> None:
    two = (executor("a", ((0,),), engine="torch"), executor("b", ((1,),), engine="torch"))
    for wrong in (
        unit_template(*two, nodes={CONFIG: 2}, pool_bytes=1 << 20),
        unit_template(executor("a", ((0,),)), nodes={CONFIG: 1}, pool_bytes=1 << 20),
    ):
        with pytest.raises(UnplaceableError, match="share a KV cache"):
            gang_of(wrong)


class OldAgent:
    """A node's end as the release before has it."""

    def __init__(self, address: Address, keys: KeyPair) -> None:
        self.told: list[Any] = []
        self.dialer: Dialer[OldWork] = Dialer(address, keys, "node", OldWork, self, protocols=(1, 1))

    def up(self) -> None: ...

    def received(self, message: OldWork) -> None:
        self.told.append(message)

    def down(self, reason: str) -> None: ...


def test_an_old_agent_is_told_in_its_own_words_and_gets_no_unit_that_it_cannot_run() -> None:
    async def scenario() -> None:
        keys, control = KeyPair.generate(), KeyPair.generate()
        names = tuple(node("i1", place) for place in range(3))
        known = {keys.public: names[0]} | {key(name): name for name in names[1:]}
        board = Board({}, 10.0, 0.0)
        board.deploy([deployed("i1", S.LOADING)])
        hub = Hub(ANYWHERE, ANYWHERE, control, Keys(known), known, board, lambda: START)
        agent = OldAgent(Address(hub.endpoint, control.public), keys)
        try:
            async with asyncio.timeout(60):
                while not agent.told:
                    await asyncio.sleep(0.01)
                work = agent.told[0]
                assert isinstance(work, OldWork)
                assert (work.instance, work.model, work.engine) == ("i1", "chat", "torch")
                assert work.scheduler is not None
                agent.dialer.send(OldNodeReport("i1", says("i1").of("only").scheduler, failure="no room"))  # type: ignore[arg-type]
                while not board.events(0.0):
                    await asyncio.sleep(0.01)
            board.deploy([unit(S.LOADING)])
            ((_, event),) = board.events(0.0)
            assert event.kind is EventKind.BROKE
            assert f"the agent of {names[0]} is of an earlier release" in event.reason
            hub.tell()
            assert len(agent.told) == 1
        finally:
            agent.dialer.close()
            hub.close()

    asyncio.run(scenario())
