"""Request-static routing: the type, then the path that a request's id draws by the split, then members in turn."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.routing import ChosenRoute, PathRouter, path_draw, router_of
from policies.routing_table import RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute, ZoneFlow
from policies.static_routing import StaticRouter
from templates_lib.values.work import Edge, Unit

VISION, LANGUAGE, BOTH = "vl/vision", "vl/language", "vl/vision+language/image"
APART = RoutedRoute(
    "vl/image/apart",
    (RoutedLeg(VISION, Unit.IMAGE_TOKEN, 600), RoutedLeg(LANGUAGE, Unit.OUTPUT_TOKEN, 100)),
    (Edge(0, 1, 1.0),),
    (ZoneFlow(("a", "a"), 5.0), ZoneFlow(("b", "a"), 2.0)),
)
TOGETHER = RoutedRoute("vl/image/together", (RoutedLeg(BOTH, Unit.INVOCATION, 1),), (), (ZoneFlow(("a",), 3.0),))
TEXT = RoutedRoute("vl/text/alone", (RoutedLeg(LANGUAGE, Unit.OUTPUT_TOKEN, 100),), (), (ZoneFlow(("a",), 1.0),))
MEMBERS = (
    RoutedInstance("e1", "a", {VISION: 900.0}),
    RoutedInstance("e2", "b", {VISION: 900.0}),
    RoutedInstance("l1", "a", {LANGUAGE: 300.0}),
    RoutedInstance("l2", "a", {LANGUAGE: 100.0}),
    RoutedInstance("w1", "a", {BOTH: 2.0}),
)
TYPES = {
    "image": RoutedModel("vl-image", (APART, TOGETHER), MEMBERS),
    "text": RoutedModel("vl-text", (TEXT,), MEMBERS),
}
REQUESTS = [f"request-{number}" for number in range(10_000)]


def chosen(choice: ChosenRoute | None) -> tuple[str, ...]:
    assert choice is not None
    return choice.route.id, *(member.id for member in choice.members)


def test_requests_take_the_paths_of_their_type_by_the_planned_split_and_members_by_throughput() -> None:
    router = StaticRouter(TYPES)
    taken = Counter((one[0], one[1][0]) for one in (chosen(router.choose("image", each)) for each in REQUESTS))
    assert taken["vl/image/apart", "e"] / len(REQUESTS) == pytest.approx(0.7, abs=0.02)
    assert taken["vl/image/together", "w"] / len(REQUESTS) == pytest.approx(0.3, abs=0.02)
    first = Counter(chosen(router.choose("image", each))[1] for each in REQUESTS)
    assert first["e1"] / first["e2"] == pytest.approx(2.5, rel=0.1)
    text = [chosen(StaticRouter(TYPES).choose("text", each)) for each in REQUESTS[:1]]
    assert text == [("vl/text/alone", "l1")]
    alone = StaticRouter(TYPES)
    assert Counter(chosen(alone.choose("text", each))[1] for each in REQUESTS) == {"l1": 7500, "l2": 2500}


@settings(max_examples=25)
@given(st.text(max_size=40))
def test_a_request_takes_the_same_path_whatever_came_before(request_id: str) -> None:
    router = StaticRouter(TYPES)
    first = chosen(router.choose("image", request_id))[0]
    for each in REQUESTS[:20]:
        router.choose("image", each)
    assert chosen(router.choose("image", request_id))[0] == first
    router.update(TYPES)
    assert chosen(router.choose("image", request_id))[0] == first
    assert 0 <= path_draw(request_id) < 1


def test_a_path_that_is_closed_is_left_and_taken_again_when_it_is_open() -> None:
    router = StaticRouter(TYPES)
    before = [chosen(router.choose("image", each))[0] for each in REQUESTS[:200]]
    assert {chosen(router.choose("image", each, {"w1"}))[0] for each in REQUESTS[:200]} == {"vl/image/apart"}
    assert [chosen(router.choose("image", each))[0] for each in REQUESTS[:200]] == before
    assert router.choose("image", "one", {member.id for member in MEMBERS}) is None


def test_the_policy_is_named_by_the_table_and_its_twin_chooses_the_same() -> None:
    router = router_of(replace(TYPES["image"], policy="request-static-v1"))
    assert isinstance(router, PathRouter)
    taken = Counter(chosen(router.choose())[0] for _ in range(5_000))
    assert taken["vl/image/apart"] / 5_000 == pytest.approx(0.7, abs=0.03)
    twin = router.twin()
    assert [chosen(twin.choose()) for _ in range(50)] == [chosen(router.choose()) for _ in range(50)]


def test_a_type_that_the_plan_does_not_serve_is_an_error_with_those_it_serves() -> None:
    with pytest.raises(LookupError, match="image, text"):
        StaticRouter(TYPES).choose("audio", "one")
    router = StaticRouter(TYPES)
    router.update({"text": TYPES["text"]})
    with pytest.raises(LookupError):
        router.choose("image", "one")
