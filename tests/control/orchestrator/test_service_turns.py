"""What a worker computes and loads next, and what goes for it, where memory has a bound."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from control.orchestrator.measured_times import MeasuredTimes
from control.orchestrator.service_queue import Queued
from control.orchestrator.service_turns import ServiceTurns
from medley_sdk.flows.messages import Effects, ServiceInfo

PROCESS_MIB, MOST_MIB, MOST_BATCH = 10, 110, 2
NAMES = "ABCDE"
SERVICES = st.lists(st.sampled_from(NAMES), max_size=3)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), SERVICES, st.just([])),
        st.tuples(st.just("expect"), SERVICES, SERVICES),
        st.tuples(st.just("next"), st.just([]), st.just([])),
    ),
    max_size=40,
)


class Worked:
    """A worker without a process: what it loads takes what is known of it, and goes when it is told to."""

    def __init__(self, sizes: Sequence[int]) -> None:
        infos = {name: ServiceInfo(name, Effects.NONE, False, MOST_BATCH, False, 60.0) for name in NAMES}
        self.times = times = MeasuredTimes(infos)
        for name, size in zip(NAMES, sizes, strict=True):
            times.services[name].loaded(1.0, size)
        self.sizes = dict(zip(NAMES, sizes, strict=True))
        self.turns = ServiceTurns(infos, times, MOST_MIB)
        self.turns.memory.resident_mib = PROCESS_MIB
        self.waiting: list[Queued] = []
        self.computed: list[str] = []
        self.made = 0
        self.promised: list[str] = []
        self.ahead: list[str] = []
        self._front: Queued | None = None
        self._in_time: list[Queued] = []
        """That waited when the turn of the front came, itself among them."""

    def call(self, service: str) -> None:
        call = Queued(str(self.made), service, b"", lambda _: None, lambda: False)
        self.made += 1
        self.waiting.append(call)
        if service in self.promised:
            self.promised.remove(service)
        self.turns.add(call, "r")

    def expect(self, promised: list[str], ahead: list[str]) -> None:
        self.promised, self.ahead = list(promised), ahead
        self.turns.expect("r", promised, ahead)

    def next(self) -> bool:
        """Compute a batch, or load ahead; False: there is nothing to do."""
        if not self.waiting:
            assert self.turns.batch() == []
            name = self.turns.wanted()
            if name is not None:
                stay = {*self.promised, *(() if name in self.promised else self.ahead)}
                self._load(name, stay, ahead=True)
            return name is not None
        if self.waiting[0] is not self._front:
            self._front, self._in_time = self.waiting[0], list(self.waiting)
        held = self.turns.memory.held
        batch = [call for _, call in self.turns.batch()]
        name = batch[0].service
        assert {call.service for call in batch} == {name}
        assert len(batch) <= MOST_BATCH
        self.waiting = [call for call in self.waiting if call not in batch]
        if self._front not in batch:
            assert batch[0] in self._in_time, "nothing waits for what came after its turn"
            assert name in held, "what is computed before its turn needs no load"
            needed = {call.service for call in (*self.waiting, *batch)} | {*self.promised}
            free_mib = MOST_MIB - PROCESS_MIB - sum(self.sizes[each] for each in held & needed)
            assert free_mib < self.sizes[self._front.service], "what has room waits for nothing"
        elif name not in held:
            self._load(name, {call.service for call in self._in_time if call in self.waiting}, ahead=False)
        self.turns.memory.used(name)
        self.computed += [call.call for call in batch]
        return True

    def _load(self, name: str, stay: set[str], *, ahead: bool) -> None:
        memory = self.turns.memory
        while out := self.turns.out(name, ahead=ahead):
            assert out[0] not in stay
            memory.dropped(out[0])
            memory.resident_mib -= self.sizes[out[0]]
        memory.loads += 1
        memory.used(name)
        memory.resident_mib += self.sizes[name]
        assert memory.resident_mib == PROCESS_MIB + sum(self.sizes[each] for each in memory.held) <= MOST_MIB


@given(st.lists(st.integers(0, MOST_MIB - PROCESS_MIB), min_size=len(NAMES), max_size=len(NAMES)), EVENTS)
def test_nothing_goes_that_the_queue_needs_and_all_calls_are_computed(
    sizes: list[int], events: list[tuple[str, list[str], list[str]]]
) -> None:
    worked = Worked(sizes)
    for what, services, ahead in events:
        if what == "call":
            for service in services:
                worked.call(service)
        elif what == "expect":
            worked.expect(services, ahead)
        else:
            worked.next()
    for _ in range(worked.made + 2 * len(NAMES)):
        if not worked.next():
            break
    assert not worked.next(), "loads for predictions come to an end"
    assert sorted(worked.computed, key=int) == [str(number) for number in range(worked.made)]


def test_a_service_that_is_dropped_is_expected_to_be_loaded_again() -> None:
    worked = Worked([40, 40, 40, 10, 10])
    for service in "ABC":
        worked.call(service)
        worked.next()
    assert worked.turns.before("").here == {"B", "C"}
    worked.call("A")
    assert worked.turns.before("").here == {"C"}, "B will go for it"
    worked.call("B")
    assert worked.turns.before("").here == {"B"}


def test_what_can_never_fit_has_its_turn_at_once() -> None:
    """Its calls fail then: they wait for nothing, and nothing goes for them."""
    worked = Worked([40, 40, MOST_MIB, 10, 10])
    for service in "AB":
        worked.call(service)
        worked.next()
    worked.times.services["C"].is_too_large = True
    for service in "CAB":
        worked.call(service)
    assert [call.service for _, call in worked.turns.batch()] == ["C"]
    worked.expect(["C"], ["C"])
    assert worked.turns.wanted() is None
