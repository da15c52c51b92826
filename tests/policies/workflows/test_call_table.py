"""What follows in a run, by runs that have ended."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from policies.workflows.call_table import END, MOST_CALLS, CallTable, Keys, last_service, two_sites
from policies.workflows.expected_visits import expected_visits


def picture_chat(chance: random.Random) -> list[str]:
    """Shaped like GILL: pictures that come in, an answer, and sometimes a picture that goes out."""
    made = ["encode"] * chance.choice((0, 1, 2)) + ["answer"]
    return made + (["draw"] if chance.random() < 0.3 else [])


def debate(chance: random.Random) -> list[str]:
    """Three agents in turn and a judge, until they agree or four rounds are over."""
    rounds = 1
    while rounds < 4 and chance.random() < 0.6:
        rounds += 1
    return ["ask", "ask", "ask", "judge"] * rounds


Run = Callable[[random.Random], list[str]]


def accuracy(keys: Keys, run: Run) -> float:
    """Share of calls, the end included, that were the likeliest; of the last 30 % of 1,000 runs, by the others."""
    chance, table = random.Random(7), CallTable(keys)
    runs = [run(chance) for _ in range(1000)]
    for each in runs[:700]:
        table.learn(each)
    places = [(each[:n], [*each, END][n]) for each in runs[700:] for n in range(len(each) + 1)]
    return sum(table.likeliest(made) == following for made, following in places) / len(places)


@pytest.mark.parametrize("run", [picture_chat, debate])
def test_two_call_sites_with_visits_are_no_worse_than_the_last_service(run: Run) -> None:
    assert accuracy(two_sites, run) >= accuracy(last_service, run) > 0.5


def test_loops_are_told_apart_by_their_visits() -> None:
    """The third ask is followed by a judge: the last service alone always says one more ask."""
    assert accuracy(two_sites, debate) > accuracy(last_service, debate) + 0.02


def test_what_was_never_seen_goes_by_less_and_then_by_nothing() -> None:
    table = CallTable()
    table.learn(["a", "b"])
    assert table.likeliest([]) == "a"
    assert table.following(["x", "a"]) == {"b": 1.0}
    assert table.following(["x"]) == {}
    assert table.likeliest(["x"]) == END


def test_sampled_runs_are_like_those_that_were_learned() -> None:
    table, chance = CallTable(), random.Random(1)
    for _ in range(2000):
        table.learn(picture_chat(chance))
    drawn = [table.sampled(["encode", "answer"], chance) for _ in range(2000)]
    assert {tuple(each) for each in drawn} == {(), ("draw",)}
    assert sum(map(bool, drawn)) / 2000 == pytest.approx(0.3, abs=0.05)
    endless = CallTable(last_service)
    endless.learn(["a"] * 5000)
    assert len(endless.sampled([], random.Random(2))) == MOST_CALLS


@pytest.mark.parametrize("run", [picture_chat, debate])
def test_expected_visits_are_the_means_of_the_runs(run: Run) -> None:
    chance = random.Random(3)
    runs = [run(chance) for _ in range(500)]
    means = {name: count / 500 for name, count in Counter(call for each in runs for call in each).items()}
    assert expected_visits(runs) == pytest.approx(means)
    held_out = [run(chance) for _ in range(20_000)]
    later = {name: count / 20_000 for name, count in Counter(call for each in held_out for call in each).items()}
    assert expected_visits(runs) == pytest.approx(later, rel=0.15)


def test_visits_behind_a_call_and_of_what_never_ran() -> None:
    runs = [["a", "b"], ["a", "b"], ["a"], ["a", "b", "a"]]
    assert expected_visits(runs, "b")["a"] == pytest.approx(1 / 3 * (1 / (1 - 3 / 5 * 1 / 3)))
    assert expected_visits(runs, "x") == {}
    assert expected_visits([]) == {}
