"""Smooth weighted round-robin: proportional, smooth, and fair to members that come and go."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.smooth_wrr import SmoothWrr

weights = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 20).map(float), min_size=1)
names = st.sampled_from("abcdefgh")


@given(weights, st.integers(1, 3))
def test_over_whole_rounds_everyone_gets_exactly_its_share(members: dict[str, float], rounds: int):
    wrr = SmoothWrr(members)
    picks = Counter(wrr.pick() for _ in range(int(sum(members.values())) * rounds))
    assert picks == {name: weight * rounds for name, weight in members.items()}


@given(weights, st.integers(1, 300))
def test_nobody_is_ever_far_from_its_due(members: dict[str, float], count: int):
    """Ahead by less than 1 pick, behind by no more than the harmonic number (cup game)."""
    wrr, total = SmoothWrr(members), sum(members.values())
    behind_limit = sum(1 / k for k in range(1, len(members) + 1))
    picks: Counter[str | None] = Counter()
    for n in range(1, count + 1):
        picks[wrr.pick()] += 1
        for name, weight in members.items():
            behind = n * weight / total - picks[name]
            assert -1 < behind <= behind_limit


def test_picks_are_spread_as_nginx_spreads_them():
    wrr = SmoothWrr({"a": 5, "b": 1, "c": 1})
    assert "".join(wrr.pick() or "" for _ in range(7)) == "aabacaa"


operations = st.lists(st.one_of(weights, st.sets(names, max_size=7)), max_size=40)


@given(operations)
def test_credits_sum_to_zero_whoever_comes_goes_or_is_skipped(steps: list):
    wrr = SmoothWrr()
    for step in steps:
        if isinstance(step, dict):
            wrr.set_weights(step)
        else:
            picked = wrr.pick(step)
            assert (picked is None) == (not set(wrr.weights) - step)
            assert picked is None or (picked in wrr.weights and picked not in step)
        assert sum(wrr.credits.values()) == pytest.approx(0, abs=1e-6)
        assert set(wrr.credits) == set(wrr.weights)


@given(weights, st.integers(0, 50), names)
def test_a_newcomer_gets_its_share_and_no_burst(members: dict[str, float], before: int, newcomer: str):
    old = {name: weight for name, weight in members.items() if name != newcomer} or {"z": 1.0}
    wrr = SmoothWrr(old)
    for _ in range(before):
        wrr.pick()
    new = {**old, newcomer: 2.0}
    wrr.set_weights(new)
    count = 10 * int(sum(new.values()))
    picks = [wrr.pick() for _ in range(count)]
    due = count * 2.0 / sum(new.values())
    assert abs(picks.count(newcomer) - due) < 4
    first = int(sum(new.values()))
    assert picks[:first].count(newcomer) <= 2 + 1


def test_equal_histories_give_equal_picks_and_ties_go_by_name():
    def run(order: str) -> list[str | None]:
        wrr = SmoothWrr(dict.fromkeys(order, 1.0))
        return [wrr.pick() for _ in range(9)]

    assert run("cab") == run("abc") == list("abc" * 3)


def test_nobody_to_pick():
    assert SmoothWrr().pick() is None
    assert SmoothWrr({"a": 1}).pick({"a"}) is None


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_weights_must_be_above_zero(weight: float):
    with pytest.raises(ValueError, match="bad"):
        SmoothWrr({"good": 1, "bad": weight})
