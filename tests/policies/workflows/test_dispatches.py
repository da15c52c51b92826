"""Where a dispatch sends calls, on places whose processes load between two batches."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from policies.workflows.call_dispatch import CallDispatch, Cell, KnownCall
from policies.workflows.dispatches import MOST_PREDICTED, Greedy, InTurn, Speculative
from policies.workflows.learned_runs import LearnedRuns
from policies.workflows.shared_place import ExpectedPlace, Place, QueuedBatch


@dataclass(frozen=True)
class Service:
    name: str
    load_s: float = 1.0
    max_batch: int = 4
    takes_s: float = 0.5

    def batch_s(self, calls: int) -> float:
        return self.takes_s * calls


SERVICES = {name: Service(name) for name in ("a", "b", "c", "n")}
LOCAL, NETWORK = frozenset({"a", "b", "c"}), frozenset({"n"})


def cell(places: list[ExpectedPlace], services: Mapping[str, Service] = SERVICES) -> Cell:
    nowhere = [[0.0] * len(places) for _ in places]
    return Cell(0.0, services, places, lambda _: nowhere, loads_beside=False)


def place(*loaded: str, busy_s: float = 0.0, cold_s: float = 0.0, services: frozenset[str] = LOCAL) -> ExpectedPlace:
    batches = (QueuedBatch("a", 1, -1.0, busy_s),) if busy_s else ()
    return ExpectedPlace(Place(batches, dict.fromkeys(loaded, 0.0)), cold_s, services)


def learned(*runs: list[str]) -> Speculative:
    found = Speculative(random.Random(1), LearnedRuns())
    for run in runs:
        found.learn("app", run)
    return found


def random_cell(chance: random.Random) -> Cell:
    found = []
    for services in (LOCAL, NETWORK):
        for _ in range(chance.randint(1, 3)):
            loaded = [name for name in sorted(services) if chance.random() < 0.4]
            busy_s = chance.choice((0.0, 0.7, 2.0))
            found.append(place(*loaded, busy_s=busy_s, cold_s=0.0 if loaded else 0.3, services=services))
    return cell(found)


def random_calls(chance: random.Random) -> list[KnownCall]:
    found = []
    for at in range(chance.randint(0, 5)):
        inputs = tuple(sorted(chance.sample(range(at), chance.randint(0, min(at, 2)))))
        found.append(KnownCall(chance.choice(sorted(SERVICES)), inputs))
    return found


@pytest.mark.parametrize("way", ["speculative", "greedy", "round robin"])
def test_every_call_and_all_that_is_predicted_has_a_place_that_computes_its_service(way: str) -> None:
    chance = random.Random(11)
    dispatches: dict[str, CallDispatch] = {"speculative": learned(), "greedy": Greedy(), "round robin": InTurn()}
    predicted = 0
    for _ in range(300):
        calls, at = random_calls(chance), random_cell(chance)
        made = ["model m", *(call.service for call in calls)]
        found = dispatches[way].assigned("app", made, calls, at)
        assert len(found.places) == len(calls)
        assert len(found.ahead) <= MOST_PREDICTED
        for service, number in [*zip((call.service for call in calls), found.places, strict=True), *found.ahead]:
            assert service in (at.places[number].services or ())
        predicted += len(found.ahead)
        dispatches[way].learn("app", [*made, *(chance.choice(["a", "b", "n", "model m"]) for _ in range(3))])
    assert (predicted > 0) == (way == "speculative")


def test_what_is_predicted_loads_on_another_place_while_the_call_before_it_is_computed() -> None:
    found = learned(["a", "b"]).assigned("app", ["a"], [KnownCall("a")], cell([place("a"), place("a")]))
    assert found.ahead == (("b", 1 - found.places[0]),)
    one = learned(["a", "b"]).assigned("app", ["a"], [KnownCall("a")], cell([place("a")]))
    assert (one.places, one.ahead) == ((0,), (("b", 0),))


def test_a_place_that_has_what_is_predicted_is_chosen_for_it_where_that_takes_less_than_a_load() -> None:
    for load_s, place_of_b in ((0.1, 0), (30.0, 1)):
        places = cell([place("a"), place("b", busy_s=3.0)], {**SERVICES, "b": Service("b", load_s=load_s)})
        assert learned(["a", "b"]).assigned("app", ["a"], [KnownCall("a")], places).ahead == (("b", place_of_b),)


def test_a_call_waits_for_a_place_that_has_its_service_rather_than_for_a_load_that_takes_longer() -> None:
    for dispatch in (learned(["a"]), Greedy()):
        assert dispatch.assigned("app", ["b"], [KnownCall("b")], cell([place(), place("b", busy_s=0.9)])).places == (1,)
        assert dispatch.assigned("app", ["b"], [KnownCall("b")], cell([place(), place("b", busy_s=1.1)])).places == (0,)


def test_a_wrong_prediction_is_followed_by_one_from_what_the_run_called() -> None:
    dispatch, at = learned(["a", "b"], ["c", "n"]), cell([place("a"), place("c"), place(services=NETWORK)])
    assert [service for service, _ in dispatch.assigned("app", ["a"], [KnownCall("a")], at).ahead] == ["b"]
    found = dispatch.assigned("app", ["a", "c"], [KnownCall("c")], at)
    assert found.places == (1,)
    assert found.ahead == (("n", 2),)


def test_where_nothing_is_known_calls_are_placed_as_greedy_does() -> None:
    chance = random.Random(12)
    for _ in range(50):
        calls, at = random_calls(chance), random_cell(chance)
        assert learned().assigned("app", [], calls, at) == Greedy().assigned("app", [], calls, at)


def test_turns_go_over_the_places_that_can_compute_a_call() -> None:
    dispatch, at = InTurn(), cell([place(), place(), place(services=NETWORK), place(services=NETWORK)])
    found = [dispatch.assigned("app", [], [KnownCall("a"), KnownCall("n")], at).places for _ in range(4)]
    assert found == [(0, 2), (1, 3), (0, 2), (1, 3)]
