"""What holds of a board whatever its nodes do, in whatever order."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages.to_gateway import SchedulerState
from agents.messages.to_hub import NodeReport
from control.hub.board import Board
from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from control.lifecycle.transitions import TRANSITIONS
from templates_lib.values.placement import ONLY
from tests.control.hub.boards import (
    GATEWAYS,
    LOST_AFTER_S,
    PLACES,
    deployed,
    key,
    node,
    over_the_wire,
    run_of,
    says,
    scheduler,
)

INSTANCES = ("i1", "i2")
NODES = [node(instance, place) for instance in INSTANCES for place in PLACES]
a_node = st.sampled_from(NODES)
reports = st.builds(
    says,
    st.sampled_from([*INSTANCES, "of old", ""]),
    state=st.none() | st.sampled_from(SchedulerState),
    running=st.integers(0, 1),
    waiting=st.integers(0, 1),
    failure=st.sampled_from(["", "", "", "broken"]),
) | st.builds(NodeReport, st.sampled_from(INSTANCES))
happenings = st.lists(
    st.one_of(
        st.tuples(st.just("joined"), a_node),
        st.tuples(st.just("left"), a_node),
        st.tuples(st.just("reported"), a_node, reports),
        st.tuples(st.just("pass"), st.floats(0, 2 * LOST_AFTER_S)),
        st.tuples(st.just("state"), st.sampled_from(INSTANCES), st.sampled_from(InstanceState)),
        st.tuples(st.just("gone"), a_node),
        st.tuples(st.just("known"), st.sets(a_node)),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


@dataclass
class World:
    """What is so, beside a board that is told of it."""

    now_s: float = 0.0
    states: dict[str, InstanceState] = field(default_factory=lambda: dict.fromkeys(INSTANCES, InstanceState.READY))
    gone: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=lambda: set(NODES))

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.board = Board(GATEWAYS, LOST_AFTER_S, self.now_s)
        self.silent_since_s: dict[str, float | None] = dict.fromkeys(NODES, self.now_s)
        """None: it is connected."""
        self.last: dict[str, NodeReport | None] = dict.fromkeys(NODES)
        self.tell()

    def tell(self) -> None:
        missing = {i: [p for p in PLACES if node(i, p) in self.gone] for i in INSTANCES}
        self.board.deploy(deployed(i, state, missing[i]) for i, state in self.states.items())
        self.board.know({key(name): name for name in self.known - self.gone})

    def happen(self, what: str, *about: object) -> None:
        match what, *about:
            case "joined", str(name):
                self.silent_since_s[name], self.last[name] = None, None
                self.board.joined(name, self.now_s)
            case "left", str(name) if self.silent_since_s[name] is None:
                self.silent_since_s[name], self.last[name] = self.now_s, None
                self.board.left(name, self.now_s)
            case "reported", str(name), NodeReport() as report if self.silent_since_s[name] is None:
                self.last[name] = report
                self.board.reported(name, report)
            case "pass", float(seconds):
                self.now_s += seconds
            case "state", str(instance), InstanceState() as state:
                self.states[instance] = state
            case "gone", str(name):
                self.gone.add(name)
            case "known", set() as names:
                self.known = names
            case ("restart",):
                self.restart()
        self.tell()

    def check_work(self) -> None:
        for instance in INSTANCES:
            own = [node(instance, place) for place in PLACES]
            said = self.last[own[0]]
            for place, name in enumerate(own):
                work = self.board.work(name)
                if work is None:
                    continue
                assert over_the_wire(work) == work
                assert work.instance == instance
                assert set(own) <= self.known - self.gone
                assert work.drain is (self.states[instance] is InstanceState.DRAINING)
                assert (run_of(work).scheduler is not None) is (place == 0)
                if run_of(work).scheduler is not None:
                    assert set(run_of(work).scheduler.workers.values()) == set(own)
                if run_of(work).stage is not None:
                    assert run_of(work).stage.scheduler_key == scheduler(instance).public_key
                    assert said is not None
                    assert said.instance == instance

    def check_events(self) -> None:
        events = self.board.events(self.now_s)
        assert len({instance for instance, _ in events}) == len(events)
        for instance, event in events:
            state = self.states[instance]
            assert (state, event.kind) in TRANSITIONS
            own = [node(instance, place) for place in PLACES]
            said = [r for r in (self.last[name] for name in own) if r is not None and r.instance == instance]
            match event.kind:
                case EventKind.NODE_LOST:
                    assert self.gone & set(own) or any(self._silent_s(name) > LOST_AFTER_S for name in own)
                case EventKind.AGENTS_UP:
                    assert not self.gone & set(own)
                    assert all(self.silent_since_s[name] is None and name in self.known for name in own)
                case EventKind.BROKE:
                    assert any(report.failure for report in said)
                case EventKind.LOADED | EventKind.DRAINED:
                    (first,) = (r for r in [self.last[own[0]]] if r is not None)
                    assert first.instance == instance
                    assert first.of(ONLY).scheduler is not None
                    assert first.of(ONLY).scheduler.status is not None
                    wanted = "ready" if event.kind is EventKind.LOADED else "draining"
                    assert first.of(ONLY).scheduler.status.state == wanted
                case other:
                    raise AssertionError(other)

    def check_that_no_loss_is_missed(self) -> None:
        told = {instance for instance, _ in self.board.events(self.now_s)}
        heard = (InstanceState.LOADING, InstanceState.READY, InstanceState.DRAINING)
        for instance, state in self.states.items():
            own = [node(instance, place) for place in PLACES]
            lost = any(self._silent_s(name) > LOST_AFTER_S for name in own) or self.gone & set(own)
            assert not (lost and state in heard) or instance in told

    def _silent_s(self, name: str) -> float:
        since_s = self.silent_since_s[name]
        return 0.0 if since_s is None else self.now_s - since_s


@settings(deadline=None)
@given(happenings)
def test_work_names_only_ones_own_instance_and_events_only_what_is_so(happened: Iterable[tuple[str, ...]]) -> None:
    world = World()
    for what, *about in happened:
        world.happen(what, *about)
        world.check_work()
        world.check_events()
        world.check_that_no_loss_is_missed()
