"""Routing tables between a release and the one before it: each reads what the other writes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agents.channels.address import Address
from control.gateway.published import (
    AccessKey,
    Published,
    PublishedError,
    PublishedModel,
    read_published,
    write_published,
)
from policies.priority import Priority
from policies.routing import ModelRouter
from policies.routing_table import PromptTimes, RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute, ZoneFlow
from policies.slack import PROMPT_POINTS
from templates_lib.values.slo import Slo
from templates_lib.values.work import Edge, Unit
from tests.control.gateway import former_published as former
from tests.policies.former_routing import ModelRouter as FormerRouter
from tests.policies.former_routing_table import RoutedInstance as FormerInstance
from tests.policies.former_routing_table import ZoneFlow as FormerFlow

STORED = Path(__file__).with_name("former_table.json")
ADDRESS = Address("tcp://127.0.0.1:1", "k" * 40)
ENCODE, PREFILL, DECODE = (
    RoutedLeg("chat/encode", Unit.IMAGE_TOKEN, 50.0),
    RoutedLeg("chat/prefill", Unit.PROMPT_TOKEN, 400.0),
    RoutedLeg("chat/decode", Unit.OUTPUT_TOKEN, 150.0),
)
BOTH = RoutedLeg("chat/aggregated", Unit.INVOCATION, 1.0)
SPLIT = RoutedRoute("chat/disaggregated", (PREFILL, DECODE), (Edge(0, 1, 1e6),), (ZoneFlow(("z1", "z2"), 2.0),))
WHOLE = RoutedRoute("chat/aggregated", (BOTH,), (), (ZoneFlow(("z1",), 1.0),))
IMAGES = RoutedRoute(
    "chat/images", (ENCODE, PREFILL, DECODE), (Edge(0, 1, 1e6), Edge(1, 2, 1e6)), (ZoneFlow(("z1", "z1", "z2"), 1.0),)
)
MEMBERS = (
    RoutedInstance("e1", "z1", {ENCODE.work_class: 900.0}),
    RoutedInstance("p1", "z1", {PREFILL.work_class: 2000.0}),
    RoutedInstance("d1", "z2", {DECODE.work_class: 500.0}),
    RoutedInstance("w1/llm", "z1", {BOTH.work_class: 2.0}),
    RoutedInstance("both", "z1", {PREFILL.work_class: 10.0, DECODE.work_class: 10.0}),
)


def table(*routes: RoutedRoute) -> Published:
    models = (
        PublishedModel(
            RoutedModel("chat", routes, MEMBERS), "/a", 4096, 17, mean_prompt_tokens=400.0, mean_output_tokens=150.0
        ),
        PublishedModel(RoutedModel("images", (IMAGES,), MEMBERS[:3]), "/a", 4096, 17),
    )
    return Published(3, {member.id: ADDRESS for member in MEMBERS}, models, demand_desk=ADDRESS)


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = table(SPLIT, WHOLE, IMAGES)
    write_published(tmp_path / "table.json", written)
    assert read_published(tmp_path / "table.json") == written


def test_a_policy_and_what_it_goes_by_are_kept_and_do_not_disturb_an_old_gateway(tmp_path: Path) -> None:
    times = PromptTimes((0.5,) * len(PROMPT_POINTS), (0.25,) * len(PROMPT_POINTS), 2048)
    members = tuple(replace(member, times=times, usd_per_hour=1.5) for member in MEMBERS)
    objective = Slo(1600.0, 80.0, 100.0, refuses_late=True)
    routing = RoutedModel("chat", (SPLIT, WHOLE), members, "slack-v1", objective)
    key = AccessKey("k", "0" * 64, priority=Priority.BATCH)
    written = replace(table(), models=(PublishedModel(routing, "/a", 4096, 17),), access=(key,))
    write_published(tmp_path / "table.json", written)
    assert read_published(tmp_path / "table.json") == written
    (old,) = former.read_published(tmp_path / "table.json").models
    assert {instance.id for instance in old.routing.instances} == {"p1", "d1", "w1/llm"}
    router = FormerRouter(old.routing)
    chosen = [router.choose() for _ in range(30)]
    assert {tuple(each.id for each in legs) for legs in chosen} == {("p1", "d1"), ("w1/llm",)}


def test_a_table_that_says_nothing_of_late_requests_has_them_served(tmp_path: Path) -> None:
    routing = RoutedModel("chat", (SPLIT, WHOLE), MEMBERS, "slack-v1", Slo(1600.0, 80.0, 100.0, refuses_late=True))
    path = tmp_path / "table.json"
    write_published(path, replace(table(), models=(PublishedModel(routing, "/a", 4096, 17),)))
    content = json.loads(path.read_text())
    del content["models"][0]["routing"]["objective"]["refuses_late"]
    path.write_text(json.dumps(content))
    (model,) = read_published(path).models
    assert model.routing.objective == Slo(1600.0, 80.0, 100.0)


def test_an_old_gateway_sees_the_routes_that_it_can_serve(tmp_path: Path) -> None:
    write_published(tmp_path / "table.json", table(SPLIT, WHOLE, IMAGES))
    read = former.read_published(tmp_path / "table.json")
    chat, images = read.models
    assert chat.routing.instances == (
        FormerInstance("p1", "z1", "prefill", prompt_tokens_per_s=2000.0),
        FormerInstance("d1", "z2", "decode", output_tokens_per_s=500.0),
        FormerInstance("w1/llm", "z1", "whole", 800.0, 300.0),
    )
    assert chat.routing.flows == (FormerFlow(("z1", "z2"), 2.0), FormerFlow(("z1",), 1.0))
    assert (images.routing.instances, images.routing.flows) == ((), ())
    assert (read.version, read.demand_desk, chat.mean_output_tokens) == (3, ADDRESS, 150.0)


def test_a_new_gateway_serves_from_an_old_table() -> None:
    read, old = read_published(STORED), former.read_published(STORED)
    assert (read.version, read.access, read.addresses) == (7, read.access, dict(old.addresses))
    chat, idle = read.models
    split, whole = sorted(chat.routing.routes, key=lambda route: -len(route.legs))
    assert [flow.zones for flow in (*split.flows, *whole.flows)] == [("z1", "z2"), ("z1",)]
    chosen = ModelRouter(chat.routing).choose({"w1"})
    assert chosen is not None
    assert [member.id for member in chosen.members] == ["p1", "d1"]
    rates = {rate.leg.unit: rate.units_per_s for rate in chat.routing.rates()}
    assert rates == {Unit.PROMPT_TOKEN: 2000.0, Unit.OUTPUT_TOKEN: 500.0, Unit.INVOCATION: 2.0}
    assert ModelRouter(idle.routing).choose() is None
    assert all(rate.units_per_s == 0 for rate in idle.routing.rates())


@pytest.mark.parametrize("content", ["[]", "{}", '{"models": 3}', '{"models": [{"routing": {"instances": [{}]}}]}'])
def test_what_is_no_table_is_refused_with_its_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(content)
    with pytest.raises(PublishedError, match=r"table\.json"):
        read_published(path)
