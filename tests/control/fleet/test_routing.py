"""The routing table that follows from a plan and from what is ready."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from agents.channels.address import Address
from control.diff.target import Target, targets
from control.fleet.routing import GatewayModel, Rates, Routing, gateway_model
from policies.routing import BY_SLACK
from policies.routing_table import PromptTimes
from policies.slack import PROMPT_POINTS
from templates_lib.apps.served_model import ServedModel
from templates_lib.load.shapes import load_shape
from templates_lib.models.catalogue import load_models
from templates_lib.values.placement import ONLY
from templates_lib.values.plan import Flow, Plan
from templates_lib.values.slo import Slo
from templates_lib.values.work import Edge, Leg, Route, Unit, WorkClass
from tests.control.fleet.fleets import ZONE, plan_of, planned
from tests.templates_lib.units import cell_template, executor, unit_template

ADDRESS = Address("tcp://127.0.0.1:1", "k" * 40)
FAR = "local/far"
FLOWS = (
    Flow("chat/disaggregated", (ZONE, ZONE), 3.0, 0.0),
    Flow("chat/disaggregated", (ZONE, FAR), 1.0, 0.0),
    Flow("chat/aggregated", (ZONE,), 2.0, 0.0),
    Flow("other/aggregated", (ZONE,), 9.0, 0.0),
)
PLAN = plan_of(
    [
        planned(1, "prefill"),
        planned(1, "decode", layers=(3, 3)),
        planned(1, "decode", layers=(3, 3), zone=FAR),
        planned(1, "aggregated", layers=(6,)),
    ],
    [],
    FLOWS,
)
PREFILL, DECODE, FAR_DECODE, WHOLE = targets(PLAN)
MODEL = ServedModel(
    "chat",
    load_models()["smollm2-135m-instruct"],
    Slo(ttft_ms=1000, tpot_ms=100, percentile=90),
    load_shape("sharegpt"),
    aggregated=True,
)


def routing(plan: Plan = PLAN) -> Routing:
    return Routing(plan, {"chat": gateway_model(MODEL, "/a/tokenizer", 17)})


def ready(*which: Target) -> list[tuple[str, Target, dict[str, Address]]]:
    return [(f"i{number}", each, {ONLY: ADDRESS}) for number, each in enumerate(which)]


def flows(*which: Target) -> list[tuple[tuple[str, ...], float]]:
    (model,) = routing().served(ready(*which))
    return [(flow.zones, flow.requests_per_s) for route in model.routing.routes for flow in route.flows]


def test_all_that_a_gateway_needs_is_in_the_table() -> None:
    (model,) = routing().served(ready(PREFILL, DECODE))
    assert (model.routing.id, model.tokenizer, model.created) == ("chat", "/a/tokenizer", 17)
    assert model.context_tokens == 24 * 16, "what there is KV cache for"
    assert model.mean_output_tokens == pytest.approx(MODEL.shape.mean_output_tokens)
    assert {i.id: (*i.units_per_s, i.zone) for i in model.routing.members} == {
        "i0": ("chat/prefill", ZONE),
        "i1": ("chat/decode", ZONE),
    }


def test_a_member_has_the_capacity_of_the_class_that_it_serves() -> None:
    (model,) = routing().served(ready(PREFILL, DECODE, WHOLE))
    assert [member.units_per_s for member in model.routing.members] == [
        {"chat/prefill": 2.0},
        {"chat/decode": 2.0},
        {"chat/aggregated": 2.0},
    ]


def test_a_promised_percentile_is_served_by_slack_with_what_prompts_take() -> None:
    times = PromptTimes((1.0,) * len(PROMPT_POINTS), (0.5,) * len(PROMPT_POINTS), 512)
    kept = replace(MODEL, slo=replace(MODEL.slo, queueing=True))
    of_kept = Routing(PLAN, {"chat": gateway_model(kept)}, lambda name, _: times if name == "chat/prefill" else None)
    (plain,), (model,) = (each.served(ready(PREFILL, DECODE)) for each in (routing(), of_kept))
    assert (plain.routing.policy, model.routing.policy) == ("wrr-v1", BY_SLACK)
    assert [member.times for member in plain.routing.members] == [None, None]
    assert [member.times for member in model.routing.members] == [times, None]
    assert [member.usd_per_hour for member in model.routing.members] == [PREFILL.usd_per_hour, DECODE.usd_per_hour]
    assert model.routing.objective == kept.slo


def test_executors_of_one_component_share_its_capacity() -> None:
    of = unit_template(executor("a", component="chat"), executor("b", component="chat"), executor("c"))
    unit = replace(WHOLE, template=of, units_per_s={"chat/aggregated": 3.0})
    both = dict.fromkeys("abc", ADDRESS)
    (model,) = routing().served([("i0", unit, both)])
    members = {member.id: member.units_per_s for member in model.routing.members}
    assert members == {"i0/a": {"chat/aggregated": 1.5}, "i0/b": {"chat/aggregated": 1.5}}


VISION, LANGUAGE, FUSED = "vl/vision", "vl/language", "vl/vision+language/image-text-to-text"
APP_CLASSES = {
    VISION: WorkClass(VISION, "vl", "vision", Unit.IMAGE_TOKEN, "s", 0.0),
    LANGUAGE: WorkClass(LANGUAGE, "vl", "language", Unit.OUTPUT_TOKEN, "s", 0.0),
    FUSED: WorkClass(FUSED, "vl", "vision+language", Unit.INVOCATION, "s", 0.0),
}
APART, TOGETHER = (Leg(VISION, 600.0), Leg(LANGUAGE, 100.0)), (Leg(FUSED, 1.0),)
APP_ROUTES = {
    "vl-image-text-to-text": (Route("apart", "vl", "image-text-to-text", APART, (Edge(0, 1, 1e6),)),
                              Route("together", "vl", "image-text-to-text", TOGETHER)),
    "vl-text-to-text": (Route("text", "vl", "text-to-text", (Leg(LANGUAGE, 100.0),)),),
}  # fmt: skip
SUSTAINED = {
    "0.vision": {VISION: 3.0},
    "1.vision": {VISION: 3.0},
    "2.vision-language": {VISION: 5.0, LANGUAGE: 8.0, FUSED: 4.0},
}


def app_members(rates: Rates) -> dict[str, dict[str, Mapping[str, float]]]:
    """Request type → member → what it does, of an instance of a cell."""
    models = {
        name: GatewayModel(
            routes, tuple(APP_CLASSES[leg.work_class] for route in routes for leg in route.legs), 100, 1, 1
        )
        for name, routes in APP_ROUTES.items()
    }
    wanted = replace(WHOLE, template=cell_template(), units_per_s={VISION: 6.0, LANGUAGE: 4.0, FUSED: 1.0})
    addresses = dict.fromkeys(SUSTAINED, ADDRESS)
    found = Routing(PLAN, models, rates=lambda _: rates).served([("i0", wanted, addresses)])
    return {each.routing.id: {m.id: m.units_per_s for m in each.routing.members} for each in found}


def test_executors_of_a_cell_are_members_with_the_work_that_is_of_their_components() -> None:
    even = app_members({})
    assert even["vl-image-text-to-text"] == {
        "i0/0.vision": {VISION: 2.0},
        "i0/1.vision": {VISION: 2.0},
        "i0/2.vision-language": {VISION: 2.0, LANGUAGE: 4.0, FUSED: 1.0},
    }
    assert even["vl-text-to-text"].keys() == {"i0/2.vision-language"}


def test_what_executors_of_a_cell_sustain_decides_what_each_of_them_gets() -> None:
    found = app_members(SUSTAINED)["vl-image-text-to-text"]
    for name, units in ((VISION, 6.0), (LANGUAGE, 4.0), (FUSED, 1.0)):
        assert sum(each.get(name, 0.0) for each in found.values()) == pytest.approx(units)
    assert found["i0/0.vision"] == found["i0/1.vision"]
    for name, rates in SUSTAINED.items():
        assert sum(units / rates[of] for of, units in found[f"i0/{name}"].items()) <= 1 + 1e-6


def test_a_context_is_what_every_instance_that_answers_has_room_for() -> None:
    assert [model.context_tokens for model in routing().served(())] == [MODEL.model.max_context_tokens]
    of_all = [planned(1, phase, kv_blocks=kv) for phase, kv in (("prefill", 10), ("decode", 40), ("aggregated", 30))]
    prefill, decode, whole = targets(plan_of(of_all, [], FLOWS))
    for there, blocks in (((prefill, decode), 40), ((prefill, decode, whole), 30), ((whole,), 30)):
        (model,) = routing().served(ready(*there))
        assert model.context_tokens == blocks * 16
    (model,) = routing().served(ready(prefill, decode))
    assert (model.most_prompt_tokens, model.context_tokens) == (10 * 16, 40 * 16), "a prompt has to fit who computes it"
    (vast,) = targets(plan_of([planned(1, "aggregated", kv_blocks=1_000_000)], [], FLOWS))
    assert [m.context_tokens for m in routing().served(ready(vast))] == [MODEL.model.max_context_tokens]


def test_flows_go_only_where_every_leg_has_an_instance() -> None:
    assert flows() == []
    assert flows(PREFILL) == []
    assert flows(PREFILL, FAR_DECODE) == [((ZONE, FAR), 1.0)]
    assert flows(WHOLE) == [((ZONE,), 2.0)]
    assert flows(DECODE, WHOLE) == [((ZONE,), 2.0)]
    assert flows(PREFILL, DECODE, FAR_DECODE, WHOLE) == [((ZONE, ZONE), 3.0), ((ZONE, FAR), 1.0), ((ZONE,), 2.0)]


def test_a_model_without_instances_is_there_so_that_it_is_refused_with_a_reason() -> None:
    assert [(m.routing.id, m.routing.members) for m in routing().served(())] == [("chat", ())]


def test_flows_that_are_nothing_or_name_no_zone_do_not_bind_the_router() -> None:
    plan = plan_of(
        PLAN.instances, [], [Flow("chat/aggregated", (ZONE,), 0.0, 0.0), Flow("chat/disaggregated", ("", ""), 1, 0)]
    )
    (model,) = routing(plan).served(ready(PREFILL, DECODE, WHOLE))
    assert not any(route.flows for route in model.routing.routes)
