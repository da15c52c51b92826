"""Shares of accounts that ask for more than there is, in virtual time."""

import heapq
import random
from collections import Counter
from dataclasses import dataclass

import pytest

from policies.admission import Admission, Charge
from policies.fair_order import Account

RATE = 100.0
"""Units per second of the class."""
MOST_S = 10.0
WARM_UP_S = 40.0
SPAN_S = 200.0


@dataclass(frozen=True)
class Asks:
    """One account's way of asking: requests per second of so many units, and whether it obeys `Retry-After`."""

    account: Account
    per_s: float
    units: float = 10.0
    is_patient: bool = False


def served(*asked: Asks, seed: int = 1) -> dict[Account, float]:
    """Units per second that each account is admitted with."""
    admission, draw, got = Admission(MOST_S), random.Random(seed), Counter[Account]()
    due = [(draw.random(), n) for n in range(len(asked))]
    heapq.heapify(due)
    while due[0][0] < WARM_UP_S + SPAN_S:
        now_s, n = heapq.heappop(due)
        one = asked[n]
        refusal = admission.admit((Charge("m/prompt", one.units, RATE, account=one.account),), now_s)
        if refusal is None and now_s >= WARM_UP_S:
            got[one.account] += one.units
        pause_s = draw.expovariate(one.per_s)
        if refusal is not None and one.is_patient:
            pause_s = max(pause_s, min(refusal.retry_after_s, 1.0))
        heapq.heappush(due, (now_s + pause_s, n))
    return {one.account: got[one.account] / SPAN_S for one in asked}


def key(name: str, project: str = "") -> Account:
    return (project or name, name)


def test_those_that_ask_most_get_no_more_than_those_that_ask_for_more_than_their_share():
    asked = [Asks(key("a"), 200), Asks(key("b"), 10), Asks(key("c"), 40, units=3), Asks(key("d"), 6, units=20)]
    got = served(*asked)
    assert sum(got.values()) == pytest.approx(RATE, rel=0.03)
    for account, units_per_s in got.items():
        assert units_per_s == pytest.approx(RATE / 4, rel=0.1), account


def test_what_some_leave_is_the_others():
    light = [Asks(key(f"light-{n}"), 0.5) for n in range(8)]  # 5 of 100 units a second each
    heavy = [Asks(key("a"), 100), Asks(key("b"), 20, is_patient=True)]
    got = served(*light, *heavy)
    for one in light:
        assert got[one.account] == pytest.approx(5.0, rel=0.2)
    left = RATE - sum(got[one.account] for one in light)
    assert [got[one.account] for one in heavy] == pytest.approx([left / 2] * 2, rel=0.1)


def test_many_keys_get_a_project_no_more_than_one():
    many = [Asks(key(f"many-{n}", "many"), 30) for n in range(10)]
    got = served(*many, Asks(key("one", "other"), 30))
    assert got[key("one", "other")] == pytest.approx(RATE / 2, rel=0.1)
    assert [got[one.account] for one in many] == pytest.approx([RATE / 20] * 10, rel=0.1)


@pytest.mark.parametrize("units", [10.0, 100.0])
@pytest.mark.parametrize("keys", [1, 10, 50, 200, None])
def test_keys_that_are_new_get_a_project_no_more(keys: int | None, units: float):
    """Requests of 0.1 s and of 1 s; `None`: each request has the next of 2,000 keys."""
    admission, draw, got = Admission(MOST_S), random.Random(1), Counter[str]()
    for n in range(10_000):
        now_s = n / 40
        name = f"key-{n % 2_000 if keys is None else draw.randrange(keys)}"
        account = key(name, "many") if draw.random() < 0.5 else key("one", "other")
        if admission.admit((Charge("m/prompt", units, RATE, account=account),), now_s) is None and now_s > WARM_UP_S:
            got[account[0]] += units
    assert got["many"] == pytest.approx(got.total() / 2, rel=0.1)


def test_a_key_that_asks_little_gets_it_from_a_project_that_asks_much():
    got = served(Asks(key("little", "a"), 1), Asks(key("much", "a"), 60), Asks(key("other"), 30), seed=2)
    assert got[key("little", "a")] == pytest.approx(10.0, rel=0.2)
    assert got[key("other")] == pytest.approx(RATE / 2, rel=0.1)


def test_who_is_alone_may_fill_the_queue():
    admission, charge = Admission(MOST_S), Charge("m/prompt", RATE / 10, RATE, account=key("a"))
    count = 0
    while admission.admit((charge,), 0.0) is None:
        count += 1
    assert count == pytest.approx(10 * MOST_S, abs=1)
    refusal = admission.admit((Charge("m/prompt", 1.0, RATE, account=key("b")),), 0.0)
    assert refusal is not None
    assert not refusal.is_of_share
    # As soon as there is room, it is of who has less, until both have as much.
    now_s = refusal.retry_after_s + 0.01
    assert admission.admit((Charge("m/prompt", 1.0, RATE, account=key("b")),), now_s) is None
    refusal = admission.admit((charge,), now_s)
    assert refusal is not None
    assert refusal.is_of_share
    later_s = now_s + refusal.retry_after_s
    assert admission.admit((charge,), later_s + 0.01) is None
    assert admission.admit((charge,), now_s) is not None


def test_what_is_given_back_counts_no_more():
    admission = Admission(MOST_S)
    big, small = Charge("w", 500.0, RATE, account=key("a")), Charge("w", 300.0, RATE, account=key("b"))
    assert admission.admit((small,), 0.0) is None
    assert admission.admit((big,), 0.0) is None
    assert admission.admit((big,), 0.0) is not None
    admission.give_back(big)
    assert admission.admit((big,), 0.0) is None
