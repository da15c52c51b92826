"""Runs of workflows over services that share places."""

import random
from collections import Counter

import pytest

from control.simulator.workflows.place_cluster import PlaceCluster, PlaceLinks
from control.simulator.workflows.replica_dispatch import DOWNSCALE_DELAY_S, UPSCALE_DELAY_S, RayServeLike, TritonLike
from control.simulator.workflows.simulated_run import OpenCall, OpenRun, SimulatedCall, SimulatedRun, SimulatedService
from control.simulator.workflows.workflow_dispatch import Greedy, InTurn, Speculative, WorkflowDispatch
from control.simulator.workflows.workflow_simulation import WorkflowSimulation

LINKS = PlaceLinks(latency_s=0.0, within_mib_per_s=100.0, across_mib_per_s=10.0)
SERVICES = {
    each.name: each
    for each in (
        SimulatedService("encode", 2.0, load_s=1.0, base_s=0.5, call_s=0.1, max_batch=4, result_mib=10.0),
        SimulatedService("answer", 6.0, load_s=2.0, base_s=2.0, call_s=0.5, max_batch=2, result_mib=0.0),
        SimulatedService("draw", 3.0, load_s=1.5, base_s=1.0, call_s=1.0, max_batch=1, result_mib=0.0),
    )
}
ENCODE_AND_ANSWER = (SimulatedCall("encode"), SimulatedCall("answer", (0,)))


class Fixed:
    """Calls of a service on the place that is given."""

    def __init__(self, **places: int) -> None:
        self._places = places

    def assign(self, cluster: PlaceCluster, run: OpenRun, calls: list[OpenCall]) -> None:  # noqa: ARG002
        for call in calls:
            call.place = self._places[call.service.name]

    def ended(self, run: OpenRun) -> None:
        pass

    def tick(self, cluster: PlaceCluster) -> None:
        pass


def cluster_of(places: int, memory_gib: float = 10.0, places_per_machine: int = 8) -> PlaceCluster:
    return PlaceCluster(
        SERVICES, places, memory_gib=memory_gib, links=LINKS, places_per_machine=places_per_machine
    )  # fmt: skip


def run_of(asked_s: float, *waves: tuple[SimulatedCall, ...], app: str = "chat") -> SimulatedRun:
    return SimulatedRun(app, asked_s, waves)


def mixed_runs(seed: int, count: int, runs_per_s: float) -> list[SimulatedRun]:
    """Of two applications that share `answer`."""
    chance, at_s, found = random.Random(seed), 0.0, []
    for _ in range(count):
        at_s += chance.expovariate(runs_per_s)
        if chance.random() < 0.5:
            waves = (ENCODE_AND_ANSWER, *(((SimulatedCall("draw", (1,)),),) if chance.random() < 0.4 else ()))
            found.append(run_of(at_s, *waves, app="pictures"))
        else:
            three = (SimulatedCall("answer"),) * 3
            found.append(run_of(at_s, three, (SimulatedCall("answer", (0, 1, 2)),), app="debate"))
    return found


def test_a_run_takes_what_loading_computing_and_moving_take() -> None:
    """Services load while others compute: `answer` is there at 2 s (3 s on one place, behind `encode`)."""
    for places, places_per_machine, latency_s in (
        ({"encode": 0, "answer": 0}, 8, 1.0 + 2.0 + 2.5),
        ({"encode": 0, "answer": 1}, 8, max(1.0 + 0.6 + 0.1, 2.0) + 2.5),
        ({"encode": 0, "answer": 1}, 1, max(1.0 + 0.6 + 1.0, 2.0) + 2.5),
    ):
        simulation = WorkflowSimulation(cluster_of(2, places_per_machine=places_per_machine), Fixed(**places))
        (ended,) = simulation.run([run_of(0.0, ENCODE_AND_ANSWER)])
        assert ended.latency_s == pytest.approx(latency_s)


def test_calls_of_several_applications_wait_and_are_one_batch() -> None:
    runs = [run_of(at, (SimulatedCall("encode"),), app=f"app-{at}") for at in range(6)]
    simulation = WorkflowSimulation(cluster_of(1), Fixed(encode=0))
    ended = simulation.run([run_of(0.0, (SimulatedCall("encode"),)), *(run_of(1.05, *run.waves) for run in runs[:5])])
    assert simulation.batches == [("encode", 1), ("encode", 4), ("encode", 1)], "4 is the most"
    assert [run.ended_s for run in ended] == pytest.approx([1.6, *[2.5] * 4, 3.1])


def test_a_wave_is_made_when_all_before_it_are_done() -> None:
    simulation = WorkflowSimulation(cluster_of(2), Fixed(encode=0, answer=0, draw=1))
    (ended,) = simulation.run([run_of(0.0, ENCODE_AND_ANSWER, (SimulatedCall("draw", (0,)),))])
    assert ended.made() == ["encode", "answer", "draw"]
    assert ended.latency_s == pytest.approx(5.5 + 1.5 + 2.0), "draw is loaded when it is known"


def test_the_least_recently_used_goes_and_what_the_queue_needs_stays() -> None:
    """Room for two of three: what was used last stays, though `encode` was loaded first."""
    cluster = cluster_of(1, memory_gib=9.0)
    calls = ["encode", "answer", "encode", "draw", "encode"]
    runs = [run_of(10.0 * at, (SimulatedCall(name),)) for at, name in enumerate(calls)]
    ended = WorkflowSimulation(cluster, Fixed(encode=0, answer=0, draw=0)).run(runs)
    assert [run.latency_s for run in ended] == pytest.approx([1.6, 4.5, 0.6, 3.5, 0.6])
    assert cluster.places[0].loads == 3


def test_calls_that_need_more_services_than_fit_are_all_done() -> None:
    """The queue needs all three, and two fit."""
    cluster = cluster_of(1, memory_gib=8.5)
    waves = ((*ENCODE_AND_ANSWER, SimulatedCall("draw", (1,)), SimulatedCall("encode", (2,))),)
    ended = WorkflowSimulation(cluster, Fixed(encode=0, answer=0, draw=0)).run(
        [run_of(0.1 * at, *waves) for at in range(5)]
    )
    assert all(run.latency_s < 200 for run in ended)


def dispatches() -> dict[str, WorkflowDispatch]:
    homes = [frozenset({"encode", "draw"}), frozenset({"answer"}), frozenset({"answer"})]
    return {
        "speculative": Speculative(1),
        "greedy": Greedy(),
        "in turn": InTurn(),
        "ray": RayServeLike(1),
        "triton": TritonLike(homes),
    }


@pytest.mark.parametrize("name", list(dispatches()))
def test_every_run_ends_and_its_calls_follow_their_inputs(name: str) -> None:
    runs = mixed_runs(seed=5, count=60, runs_per_s=0.4)
    simulation = WorkflowSimulation(cluster_of(4), dispatches()[name])
    ended = simulation.run(runs)
    made: Counter[str] = Counter()
    for run in ended:
        assert run.waves == len(run.given.waves)
        for call in run.calls:
            made[call.service.name] += 1
            least_s = call.service.batch_s(1)
            begun_s = max([run.given.asked_s, *(taken.done_s for taken in call.inputs)])
            assert call.done_s >= begun_s + least_s - 1e-9
        assert run.ended_s == max(call.done_s for call in run.calls)
    batches: Counter[str] = Counter()
    for service, calls in simulation.batches:
        assert 1 <= calls <= SERVICES[service].max_batch
        batches[service] += calls
    assert batches == made


def test_what_is_predicted_is_loaded_ahead() -> None:
    """A picture follows each answer: who has learned that loads `draw` while the answer is computed."""
    run = run_of(0.0, ENCODE_AND_ANSWER, (SimulatedCall("draw", (1,)),))
    for dispatch, learned_s in ((Speculative(1), 5.5 + 2.0), (Greedy(), 5.5 + 1.5 + 2.0)):
        for latency_s in (9.0, learned_s):  # on places that have nothing loaded, both times
            (ended,) = WorkflowSimulation(cluster_of(1, memory_gib=11.0), dispatch).run([run])
            assert ended.latency_s == pytest.approx(latency_s)


def test_replicas_follow_the_calls_once_they_were_many_for_a_while() -> None:
    cluster = PlaceCluster({"answer": SERVICES["answer"]}, 4, memory_gib=7.0, links=LINKS)
    burst = [run_of(0.0, (SimulatedCall("answer"),)) for _ in range(60)]
    last = run_of(UPSCALE_DELAY_S + DOWNSCALE_DELAY_S + 200.0, (SimulatedCall("answer"),))
    simulation = WorkflowSimulation(cluster, RayServeLike(1))
    ended = simulation.run([*burst, last])
    first = [run for run in ended if run.ended_s < UPSCALE_DELAY_S]
    assert {call.place for run in first for call in run.calls} == {0}
    assert sum(place.loads for place in cluster.places) > 1
    assert sum(bool(place.pinned) for place in cluster.places) == 1, "back to one when there was little for long"


def test_a_given_placement_stays_and_what_it_lacks_has_a_place() -> None:
    cluster = cluster_of(3)
    homes = [frozenset({"answer"}), frozenset({"answer"}), frozenset()]
    ended = WorkflowSimulation(cluster, TritonLike(homes)).run(mixed_runs(seed=1, count=30, runs_per_s=0.3))
    places: dict[str, set[int]] = {}
    for call in (call for run in ended for call in run.calls):
        places.setdefault(call.service.name, set()).add(call.place)
    assert places["answer"] == {0, 1}
    assert places["encode"] == places["draw"] == {2}
    assert sum(place.loads for place in cluster.places) == 4


def test_a_given_placement_gives_up_a_second_replica_for_a_service_that_has_none() -> None:
    cluster = cluster_of(2, memory_gib=8.0)
    homes = [frozenset({"answer"}), frozenset({"answer"})]
    ended = WorkflowSimulation(cluster, TritonLike(homes)).run(mixed_runs(seed=1, count=30, runs_per_s=0.3))
    places: dict[str, set[int]] = {}
    for call in (call for run in ended for call in run.calls):
        places.setdefault(call.service.name, set()).add(call.place)
    assert {name: len(at) for name, at in places.items()} == {"answer": 1, "encode": 1, "draw": 1}


def test_services_that_fit_nowhere_are_refused() -> None:
    with pytest.raises(ValueError, match="answer"):
        cluster_of(1, memory_gib=5.0)
    with pytest.raises(ValueError, match="draw"):
        WorkflowSimulation(cluster_of(1), TritonLike([frozenset({"answer", "encode"})])).run([])


def test_what_a_place_held_longest() -> None:
    cluster = cluster_of(1, memory_gib=8.0)
    runs = [run_of(at, (SimulatedCall(name),)) for at, name in ((0.0, "encode"), (5.0, "draw"), (60.0, "answer"))]
    WorkflowSimulation(cluster, Fixed(encode=0, draw=0, answer=0)).run(runs)
    assert cluster.places[0].longest_held(cluster.now_s) == {"encode", "draw"}
