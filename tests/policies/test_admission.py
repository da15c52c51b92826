"""Admission: never more than capacity and the wait allow; whoever comes back when told gets in."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.text_tables import text_model
from policies.admission import Admission, Charge, work_rules
from policies.routing_table import RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute
from templates_lib.values.work import Edge, Unit

requests = st.lists(st.tuples(st.floats(0, 2), st.floats(0.1, 300)), min_size=1, max_size=60)


@given(requests, st.floats(1, 100), st.floats(0, 5))
def test_admitted_work_never_exceeds_capacity_plus_the_allowed_wait(steps, rate, max_wait_s):
    admission, now_s, admitted = Admission(max_wait_s), 0.0, []
    for gap_s, units in steps:
        now_s += gap_s
        if admission.admit((Charge("m/prompt", units, rate),), now_s) is None:
            admitted.append((now_s, units))
    for n, (start_s, _) in enumerate(admitted):
        for end in range(n, len(admitted)):
            span_s = admitted[end][0] - start_s
            before_last = sum(units for _, units in admitted[n:end])
            assert before_last <= rate * (span_s + max_wait_s) + 1e-6 * rate


@given(requests, st.floats(1, 100), st.floats(0, 5), st.randoms(use_true_random=False))
def test_those_who_admit_work_for_the_same_instances_admit_together_what_one_would(steps, rate, max_wait_s, draw):
    booked: list[tuple[str, tuple[str, str], float]] = []
    both = [Admission(max_wait_s, lambda *each: booked.append(each)) for _ in range(2)]
    now_s, admitted = 0.0, []
    for gap_s, units in steps:
        now_s += gap_s
        here, there = draw.sample(both, 2)
        charge = Charge("m/prompt", units, rate, account=("p", draw.choice("ab")))
        if here.admit((charge,), now_s) is None:
            admitted.append((now_s, units))
            if draw.random() < 0.2:
                here.give_back(charge)
                admitted.pop()
        for each in booked:
            there.note(*each, now_s)
        booked.clear()
    for n, (start_s, _) in enumerate(admitted):
        for end in range(n, len(admitted)):
            before_last = sum(units for _, units in admitted[n:end])
            assert before_last <= rate * (admitted[end][0] - start_s + max_wait_s) + 1e-6 * rate


@given(requests, st.floats(1, 100))
def test_whoever_comes_back_when_told_is_admitted(steps, rate):
    admission, now_s = Admission(0.5), 0.0
    for gap_s, units in steps:
        now_s += gap_s
        charge = Charge("m/output", units, rate)
        refusal = admission.admit((charge,), now_s)
        if refusal is not None:
            assert 0 < refusal.retry_after_s < inf
            now_s += refusal.retry_after_s + 1e-9 * (1 + now_s)
            assert admission.admit((charge,), now_s) is None


def test_classes_are_apart_and_a_refusal_books_nothing():
    admission = Admission(1.0)
    assert admission.admit((Charge("a", 30, 10),), 0.0) is None
    refusal = admission.admit((Charge("a", 1, 10), Charge("b", 50, 10)), 0.0)
    assert refusal is not None
    assert (refusal.work, refusal.retry_after_s) == ("a", 2.0)
    assert admission.wait_s("b", 0.0) == 0
    assert admission.admit((Charge("b", 1, 10),), 0.0) is None


def test_work_that_is_not_done_makes_room():
    admission = Admission(1.0)
    charge = Charge("a", 100, 10)
    assert admission.admit((charge,), 0.0) is None
    assert admission.admit((charge,), 0.0) is not None
    admission.give_back(Charge("a", 95, 10))
    assert admission.wait_s("a", 0.0) == 0.5
    assert admission.admit((charge,), 0.0) is None


def test_no_capacity_is_a_refusal_without_a_time():
    refusal = Admission(1.0).admit((Charge("a", 1, 0),), 5.0)
    assert refusal is not None
    assert refusal.retry_after_s == inf


def test_an_idle_class_takes_one_request_of_any_size():
    assert Admission(0.0).admit((Charge("a", 1e9, 1),), 0.0) is None


@pytest.mark.parametrize("now_s", [0.0, 1e9])
def test_waits_end(now_s: float):
    admission = Admission(0.0)
    admission.admit((Charge("a", 10, 1),), now_s)
    assert admission.wait_s("a", now_s + 4) == 6
    assert admission.wait_s("a", now_s + 40) == 0


def charges(model: RoutedModel, *unusable: str) -> tuple[Charge, ...]:
    """Charges for a request of 80 tokens and an expected answer of 20."""
    return tuple(rule.charge(80, 20.0) for rule in work_rules(model.rates(set(unusable))).values())


def test_a_request_is_charged_by_work_class_and_routes_share_it_by_what_they_can_do() -> None:
    encode = RoutedLeg("m/encode", Unit.IMAGE_TOKEN, 50.0)
    split = text_model("m", per_request=100.0).routes[0]
    images = RoutedRoute("images", (encode, *split.legs), (Edge(0, 1, 0.0), Edge(1, 2, 0.0)))
    both = RoutedRoute("both", (RoutedLeg("m/both", Unit.INVOCATION, 1.0),))
    members = (
        RoutedInstance("e", "z", {"m/encode": 1000.0}),
        RoutedInstance("p", "z", {"m/prefill": 300.0}),
        RoutedInstance("d", "z", {"m/decode": 400.0}),
        RoutedInstance("b", "z", {"m/both": 1.0}),
    )
    model = RoutedModel("m", (images, both), members)
    assert charges(model) == (
        Charge("m/encode", pytest.approx(37.5), 1000.0),
        Charge("m/prefill", pytest.approx(60.0), 300.0),
        Charge("m/decode", pytest.approx(15.0), 400.0, 0.75),
        Charge("m/both", pytest.approx(0.25), 1.0),
    )
    assert [(c.work, c.units) for c in charges(model, "p")] == [("m/both", 1.0)]
    none = charges(model, "p", "b")
    assert {c.work for c in none if c.units_per_s == 0} == {"m/prefill", "m/both"}


def test_a_class_that_several_routes_use_is_charged_once() -> None:
    split = text_model("m", per_request=100.0).routes[0]
    encode = RoutedLeg("m/encode", Unit.IMAGE_TOKEN, 50.0)
    images = RoutedRoute("images", (encode, *split.legs), (Edge(0, 1, 0.0), Edge(1, 2, 0.0)))
    members = tuple(
        RoutedInstance(name, "z", {f"m/{name}": rate})
        for name, rate in (("encode", 100.0), ("prefill", 300.0), ("decode", 400.0))
    )
    found = {charge.work: charge for charge in charges(RoutedModel("m", (split, images), members))}
    assert found["m/prefill"] == Charge("m/prefill", pytest.approx(80.0), 300.0)
    assert found["m/decode"] == Charge("m/decode", pytest.approx(20.0), 400.0, pytest.approx(1.0))
    assert found["m/encode"].units == pytest.approx(20.0)
