"""Routing: by planned flow between zones, by throughput within, and on whatever is left when instances fail."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.text_tables import DECODE, PREFILL, WHOLE, member, text_model
from policies.routing import ChosenRoute, ModelRouter
from policies.routing_table import RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute, ZoneFlow
from templates_lib.values.work import Edge, Unit
from tests.policies import former_routing as former
from tests.policies import former_routing_table as former_table


def whole(id_: str, zone: str, rate: float = 100.0) -> RoutedInstance:
    return member("m", id_, zone, WHOLE, rate)


def prefill(id_: str, zone: str, rate: float = 1000.0) -> RoutedInstance:
    return member("m", id_, zone, PREFILL, rate)


def decode(id_: str, zone: str, rate: float = 100.0) -> RoutedInstance:
    return member("m", id_, zone, DECODE, rate)


def members_of(choice: ChosenRoute | None) -> tuple[RoutedInstance, ...]:
    return () if choice is None else choice.members


def ids(choice: ChosenRoute | None) -> tuple[str, ...]:
    return tuple(one.id for one in members_of(choice))


MIXED = text_model(
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
    assert Counter(tuple(i.zone for i in members_of(choice)) for choice in choices) == {
        ("z1",): 600,
        ("z2", "z2"): 200,
        ("z1", "z2"): 200,
    }
    shares = Counter(id_ for choice in choices for id_ in ids(choice))
    assert shares == {"w1": 450, "w2": 150, "p1": 200, "p2": 200, "d2": 300, "e2": 100}


def test_a_flow_without_usable_instances_leaves_its_requests_to_the_others():
    router = ModelRouter(MIXED)
    choices = Counter(ids(router.choose({"d2", "e2"})) for _ in range(100))
    assert choices == {("w1",): 75, ("w2",): 25}


def test_without_any_open_flow_whatever_serves_is_used_near_before_far():
    instances = (prefill("p1", "z1"), prefill("p2", "z2"), decode("d2", "z2"), decode("d3", "z3"), whole("w3", "z3"))
    router = ModelRouter(text_model("m", instances, (ZoneFlow(("z1", "z3"), 1),)))
    assert ids(router.choose()) == ("p1", "d3")
    assert {ids(router.choose({"p1"})) for _ in range(20)} == {("p2", "d2"), ("w3",)}
    assert ids(router.choose({"p1", "w3", "d2"})) == ("p2", "d3")
    assert router.choose({"p1", "p2", "w3"}) is None


def test_without_flows_zones_share_by_what_they_can_do():
    router = ModelRouter(text_model("m", (whole("a", "z1", 300), whole("b", "z2", 100))))
    assert Counter(ids(router.choose()) for _ in range(400)) == {("a",): 300, ("b",): 100}


def test_a_new_table_takes_effect_at_once_and_keeps_proportions():
    router = ModelRouter(text_model("m", (whole("a", "z"), whole("b", "z"))))
    for _ in range(7):
        router.choose()
    router.update(text_model("m", (whole("b", "z"), whole("c", "z", 200))))
    choices = Counter(ids(router.choose()) for _ in range(300))
    assert set(choices) == {("b",), ("c",)}
    assert choices["b",] == pytest.approx(100, abs=2)
    router.update(text_model("m"))
    assert router.choose() is None


zones = st.sampled_from(["z1", "z2", "z3"])
rows = st.lists(st.tuples(st.sampled_from([WHOLE, PREFILL, DECODE]), zones, st.integers(1, 9)), min_size=1, max_size=8)
flows = st.lists(st.tuples(zones) | st.tuples(zones, zones), max_size=4, unique=True).map(
    lambda keys: tuple(ZoneFlow(key, n + 1) for n, key in enumerate(keys))
)
dead = st.sets(st.integers(0, 7)).map(lambda numbers: frozenset(f"i{n}" for n in numbers))


def text_of(rows: list[tuple[str, str, int]], planned: tuple[ZoneFlow, ...] = ()) -> RoutedModel:
    return text_model("m", [member("m", f"i{n}", zone, leg, rate) for n, (leg, zone, rate) in enumerate(rows)], planned)


@given(rows, flows, dead)
def test_a_request_is_served_whenever_some_usable_instances_can(rows, planned, unusable):
    model = text_of(rows, planned)
    router = ModelRouter(model)
    alive = [one for one in model.members if one.id not in unusable]
    legs = {leg for n, (leg, _, _) in enumerate(rows) if f"i{n}" not in unusable}
    can = WHOLE in legs or {PREFILL, DECODE} <= legs
    assert router.can_choose(unusable) == can
    for _ in range(3):
        choice = router.choose(unusable)
        assert (choice is not None) == can
        if choice is not None:
            assert all(one in alive for one in choice.members)
            assert [
                leg.work_class in one.units_per_s for leg, one in zip(choice.route.legs, choice.members, strict=True)
            ]


@given(st.lists(st.tuples(rows, flows, st.lists(dead, min_size=1, max_size=4)), min_size=1, max_size=3), zones)
def test_text_models_are_routed_as_by_the_release_before(steps, zone):
    """One table after the other, with changing members out of use."""
    router, before = ModelRouter(text_model("m")), former.ModelRouter(former_table.RoutedModel("m"))
    for rows, planned, outages in steps:
        router.update(text_of(rows, planned))
        instances = [former_table.RoutedInstance(f"i{n}", z, leg, rate, rate) for n, (leg, z, rate) in enumerate(rows)]
        flows = tuple(former_table.ZoneFlow(flow.zones, flow.requests_per_s) for flow in planned)
        before.update(former_table.RoutedModel("m", tuple(instances), flows))
        for unusable in outages:
            for _ in range(6):
                expected = tuple(one.id for one in before.choose(unusable))
                assert ids(router.choose(unusable)) == expected
        assert ids(router.twin().choose()) == ids(router.choose())
        before.choose()


def chain(length: int, members: list[RoutedInstance], flows: tuple[ZoneFlow, ...] = ()) -> RoutedModel:
    legs = tuple(RoutedLeg(f"c{n}", Unit.INVOCATION, 1.0) for n in range(length))
    edges = tuple(Edge(n, n + 1, 1.0) for n in range(length - 1))
    return RoutedModel("m", (RoutedRoute("chain", legs, edges, flows),), tuple(members))


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 3), min_size=1), zones, st.integers(1, 9)), min_size=1, max_size=8),
    st.lists(st.tuples(zones, zones, zones, zones), max_size=3, unique=True),
    dead,
)
def test_a_route_of_any_length_is_served_whenever_each_leg_can_be(rows, planned, unusable):
    """Members may serve several legs."""
    members = [RoutedInstance(f"i{n}", z, {f"c{k}": rate for k in own}) for n, (own, z, rate) in enumerate(rows)]
    router = ModelRouter(chain(4, members, tuple(ZoneFlow(zones, 1.0) for zones in planned)))
    alive = [one for one in members if one.id not in unusable]
    choice = router.choose(unusable)
    assert (choice is not None) == all(any(f"c{k}" in one.units_per_s for one in alive) for k in range(4))
    for n, one in enumerate(members_of(choice)):
        assert one in alive
        assert f"c{n}" in one.units_per_s


def test_twelve_legs_over_ten_zones_are_routed_by_flow_near_and_far():
    there = [RoutedInstance(f"{k}@z{z}", f"z{z}", {f"c{k}": 1.0 + z}) for k in range(12) for z in range(10)]
    planned = (*(f"z{n % 10}" for n in range(11)), "z9")
    router = ModelRouter(chain(12, there, (ZoneFlow(planned, 1.0),)))
    assert [one.zone for one in members_of(router.choose())] == [*planned]
    assert len({one.zone for one in members_of(router.choose({"0@z0"}))}) == 1
    apart = {f"{k}@z{z}" for k in range(12) for z in range(10) if z != k % 10}
    assert [one.zone for one in members_of(router.choose(apart))] == [f"z{k % 10}" for k in range(12)]
    assert router.choose({f"5@z{z}" for z in range(10)}) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: whole("a", "z", 0), "throughput above 0"),
        (lambda: RoutedInstance("a", "z", {}), "throughput above 0"),
        (lambda: text_model("m", (), (ZoneFlow(("a",), 1), ZoneFlow(("a",), 2))), "flows repeat"),
        (lambda: chain(3, [], (ZoneFlow(("a", "b"), 1),)), "one zone for each of 3 legs"),
        (lambda: RoutedRoute("r", chain(3, []).routes[0].legs, (Edge(0, 1, 1.0),)), "edges must lead"),
        (lambda: ZoneFlow(("a",), 0), "above 0"),
        (lambda: text_model("m", (whole("a", "z"), whole("a", "y"))), "repeat"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
