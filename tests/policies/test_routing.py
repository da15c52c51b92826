"""Routing: by planned flow between zones, by throughput within, and on whatever is left when instances fail."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.routing import ModelRouter
from policies.routing_table import DECODE, PREFILL, WHOLE, RoutedInstance, RoutedModel, ZoneFlow


def whole(id_: str, zone: str, rate: float = 100.0) -> RoutedInstance:
    return RoutedInstance(id_, zone, WHOLE, 10 * rate, rate)


def prefill(id_: str, zone: str, rate: float = 1000.0) -> RoutedInstance:
    return RoutedInstance(id_, zone, PREFILL, prompt_tokens_per_s=rate)


def decode(id_: str, zone: str, rate: float = 100.0) -> RoutedInstance:
    return RoutedInstance(id_, zone, DECODE, output_tokens_per_s=rate)


def ids(choice: tuple[RoutedInstance, ...]) -> tuple[str, ...]:
    return tuple(instance.id for instance in choice)


MIXED = RoutedModel(
    "m",
    (
        whole("w1", "z1", 300),
        whole("w2", "z1", 100),
        prefill("p1", "z1"),
        prefill("p2", "z2"),
        decode("d2", "z2", 30),
        decode("e2", "z2", 10),
    ),
    (ZoneFlow(("z1",), 6), ZoneFlow(("z2", "z2"), 2), ZoneFlow(("z1", "z2"), 2)),
)


def test_zones_get_their_planned_flow_and_instances_their_throughput():
    router = ModelRouter(MIXED)
    choices = [router.choose() for _ in range(1000)]
    assert Counter(tuple(i.zone for i in choice) for choice in choices) == {
        ("z1",): 600,
        ("z2", "z2"): 200,
        ("z1", "z2"): 200,
    }
    shares = Counter(instance.id for choice in choices for instance in choice)
    assert shares == {"w1": 450, "w2": 150, "p1": 200, "p2": 200, "d2": 300, "e2": 100}


def test_a_flow_without_usable_instances_leaves_its_requests_to_the_others():
    router = ModelRouter(MIXED)
    choices = Counter(ids(router.choose({"d2", "e2"})) for _ in range(100))
    assert choices == {("w1",): 75, ("w2",): 25}


def test_without_any_open_flow_whatever_serves_is_used_near_before_far():
    instances = (prefill("p1", "z1"), prefill("p2", "z2"), decode("d2", "z2"), decode("d3", "z3"), whole("w3", "z3"))
    router = ModelRouter(RoutedModel("m", instances, (ZoneFlow(("z1", "z3"), 1),)))
    assert ids(router.choose()) == ("p1", "d3")
    assert {ids(router.choose({"p1"})) for _ in range(20)} == {("p2", "d2"), ("w3",)}
    assert ids(router.choose({"p1", "w3", "d2"})) == ("p2", "d3")
    assert router.choose({"p1", "p2", "w3"}) == ()


def test_without_flows_zones_share_by_what_they_can_do():
    router = ModelRouter(RoutedModel("m", (whole("a", "z1", 300), whole("b", "z2", 100))))
    assert Counter(ids(router.choose()) for _ in range(400)) == {("a",): 300, ("b",): 100}


def test_a_new_table_takes_effect_at_once_and_keeps_proportions():
    router = ModelRouter(RoutedModel("m", (whole("a", "z"), whole("b", "z"))))
    for _ in range(7):
        router.choose()
    router.update(RoutedModel("m", (whole("b", "z"), whole("c", "z", 200))))
    choices = Counter(ids(router.choose()) for _ in range(300))
    assert set(choices) == {("b",), ("c",)}
    assert choices["b",] == pytest.approx(100, abs=2)
    router.update(RoutedModel("m"))
    assert router.choose() == ()


zones = st.sampled_from(["z1", "z2", "z3"])
instances = st.lists(
    st.tuples(st.sampled_from([WHOLE, PREFILL, DECODE]), zones, st.integers(1, 9)), min_size=1, max_size=8
).map(lambda rows: tuple(RoutedInstance(f"i{n}", z, leg, rate, rate) for n, (leg, z, rate) in enumerate(rows)))
flows = st.lists(st.tuples(zones).map(tuple) | st.tuples(zones, zones), max_size=4, unique=True).map(
    lambda keys: tuple(ZoneFlow(key, n + 1) for n, key in enumerate(keys))
)


@given(instances, flows, st.sets(st.integers(0, 7)))
def test_a_request_is_served_whenever_some_usable_instances_can(members, planned, dead):
    unusable = {f"i{n}" for n in dead}
    router = ModelRouter(RoutedModel("m", members, planned))
    alive = [instance for instance in members if instance.id not in unusable]
    legs = {instance.leg for instance in alive}
    assert router.can_choose(unusable) == (WHOLE in legs or {PREFILL, DECODE} <= legs)
    for _ in range(3):
        choice = router.choose(unusable)
        assert bool(choice) == (WHOLE in legs or {PREFILL, DECODE} <= legs)
        assert all(instance in alive for instance in choice)
        assert [i.leg for i in choice] in ([], [WHOLE], [PREFILL, DECODE])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: whole("a", "z", 0), "throughput above 0"),
        (lambda: RoutedInstance("a", "z", "middle", 1, 1), "leg must be one of"),
        (lambda: ZoneFlow(("a", "b", "c"), 1), "not 3"),
        (lambda: ZoneFlow(("a",), 0), "above 0"),
        (lambda: RoutedModel("m", (whole("a", "z"), whole("a", "y"))), "repeat"),
        (lambda: RoutedModel("m", (), (ZoneFlow(("z",), 1), ZoneFlow(("z",), 2))), "repeat"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
