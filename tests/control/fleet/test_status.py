"""How a fleet does, as values for people and programs."""

import json
import math
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from control.cli.output import Output, render
from control.cli.status import latencies
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.diff.target import targets
from control.fleet.fleet_status import fleet_status
from control.fleet.instance_view import InstanceView, instance_view
from control.fleet.latency import GatewayFigures, Histogram
from control.fleet.live_instances import instance_views
from control.fleet.recorded_statuses import fleet_statuses
from control.fleet_file.model_section import SloSection
from control.hub.gang import gang_of
from control.lifecycle.held_node import HeldNode
from control.lifecycle.node_load import NodeLoad
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance
from templates_lib.values.plan import Flow
from templates_lib.values.work import Unit, WorkClass
from tests.control.fleet.fleets import MARKET, ZONE, instance, plan_of, planned
from tests.control.lifecycle.worlds import START
from tests.factories import work_class
from tests.templates_lib.units import cell_template

PLAN = plan_of([planned(2, "prefill"), planned(1, "decode", layers=(3, 3))], [], [], unmet={"chat/chat": 0.5})
PREFILL, DECODE = targets(PLAN)
CLASSES = [
    replace(work_class("chat/prefill"), slo_share_ms=900.0),
    replace(work_class("chat/decode"), unit=Unit.OUTPUT_TOKEN, slo_share_ms=80.0),
]
EMPTY = Histogram((), ())
SLOW = Histogram((0.1, math.inf), (0.0, 3.0))


def held(place: int, load: NodeLoad | None) -> HeldNode:
    return HeldNode(f"n{place}", "i1", place, "o", "local", "p", START, START if load else None, load)


def view(name: str, of: Any, state: str = InstanceState.READY, load: NodeLoad | None = None) -> InstanceView:
    nodes = {} if load is None else {0: held(0, load)}
    return instance_view(instance(name, of, state), of, of.model, gang_of(of.template), nodes)


def test_legs_are_counted_against_the_plan() -> None:
    busy = NodeLoad(0.5, 100, "ready", 3, 2, 24, 6)
    views = [
        view("i1", PREFILL, load=busy),
        view("i2", PREFILL, InstanceState.LOADING),
        view("i3", DECODE, InstanceState.DRAINING, busy),
        view("i4", replace(DECODE, model="another")),
    ]
    status = fleet_status("f", PLAN, CLASSES, views, {}, {"chat/prefill": 3.0, "chat/decode": 0.5})
    assert (status.fleet, status.plan, status.unmet) == ("f", "plan-1", {"chat/chat": 0.5})
    assert [model.model for model in status.models] == ["another", "chat"]
    chat = status.models[1]
    assert [(leg.leg, leg.planned, leg.ready, leg.running, leg.waiting, leg.units_per_s) for leg in chat.legs] == [
        ("prefill", 2, 1, 3, 2, 2.0),
        ("decode", 1, 0, 3, 2, 0),
    ]
    assert [(leg.planned_units_per_s, leg.demand_units_per_s) for leg in chat.legs] == [(4.0, 3.0), (2.0, 0.5)]
    assert (chat.ttft_slo_ms, chat.tpot_slo_ms) == (900.0, 80.0)
    assert (chat.requests, set(chat.ttft_ms.values())) == (0, {None})


def test_objectives_are_those_of_the_spec_also_where_whole_instances_have_none_for_a_prompt() -> None:
    slos = {"chat": SloSection(ttft_ms=700, tpot_ms=60)}
    (chat,) = fleet_status("f", PLAN, CLASSES[1:], [], {}, {}, slos).models
    assert (chat.ttft_slo_ms, chat.tpot_slo_ms) == (700, 60)


def test_latencies_are_of_the_gateway_and_json_has_no_infinity() -> None:
    figures = {"chat": GatewayFigures(SLOW, EMPTY, 10, 20, 1, 4)}
    status = fleet_status("f", PLAN, CLASSES, [], figures, {})
    (chat,) = status.models
    assert chat.ttft_ms == {"p50": math.inf, "p90": math.inf, "p99": math.inf}
    assert chat.tpot_ms == {"p50": None, "p90": None, "p99": None}
    assert (chat.requests, chat.resumptions, chat.late_refusals) == (3, 1, 4)
    parsed = json.loads(render([status], Output.JSON), parse_constant=pytest.fail)
    assert parsed[0]["models"][0]["requests"] == 3


@pytest.mark.parametrize(
    ("late", "words"),
    [(0, "(SLO 900 ms)"), (5, "(SLO 900 ms, exceeded from p99 on)"), (60, "(SLO 900 ms, exceeded from p50 on)")],
)
def test_an_objective_that_is_missed_is_said_so(late: int, words: str) -> None:
    answers = Histogram((0.9, 10.0, math.inf), (100.0 - late, 100.0, 100.0))
    (chat,) = fleet_status("f", PLAN, CLASSES, [], {"chat": GatewayFigures(answers, EMPTY, 1, 2, 0, 0)}, {}).models
    shown = latencies(chat)
    assert words in shown
    assert shown.endswith("TPOT p50 -, p90 -, p99 - (SLO 80 ms)"), "nothing is known of it"


def test_an_app_has_the_figures_of_all_its_request_types() -> None:
    classes = [WorkClass("vl/language", "vl", "language", Unit.OUTPUT_TOKEN, "s", 0.0)]
    plan = replace(
        PLAN,
        instances=(replace(PLAN.instances[0], model="vl", units_per_s={"vl/language": 5.0}),),
        flows=(Flow("vl/text-to-text/language", ("a/a",), 1.0, 0.0), Flow("vl/chat/language", ("a/a",), 1.0, 0.0)),
    )
    figures = {
        "vl": GatewayFigures(SLOW, EMPTY, 1, 2, 1, 0),
        "vl-text-to-text": GatewayFigures(SLOW, EMPTY, 1, 2, 2, 3, {("vl/language", "ttft"): (4.0, 3.0)}),
        "vl-other": GatewayFigures(SLOW, EMPTY, 1, 2, 5, 5),
    }
    (vl,) = fleet_status("f", plan, classes, [], figures, {}).models
    assert (vl.requests, vl.resumptions, vl.late_refusals) == (6, 3, 3)
    assert vl.tpot_ms == {"p50": None, "p90": None, "p99": None}
    assert (vl.ttft_slo_ms, vl.tpot_slo_ms) == (None, None), "they are of its request types"
    assert [leg.leg for leg in vl.legs] == ["language"]


def test_an_instance_is_seen_with_every_place_of_its_gang() -> None:
    load = NodeLoad(0.25, 300, "ready", 2, 1, 24, 18)
    seen = instance_view(instance("i1", PREFILL), PREFILL, "tiny", gang_of(PREFILL.template), {0: held(0, load)})
    assert (seen.model, seen.leg, seen.running, seen.waiting, seen.kv_used) == ("chat", "prefill", 2, 1, 0.25)
    first, second = seen.nodes
    assert (first.name, first.stage, first.first_layer, first.last_layer, first.cpu_share) == ("n0", 0, 0, 3, 0.25)
    assert (second.name, second.stage, second.first_layer, second.last_layer) == ("", 1, 4, 5)
    assert (second.cpu_share, second.memory_mib, second.last_heartbeat) == (None, None, "")


def test_an_instance_of_components_is_seen_with_the_devices_of_each_executor() -> None:
    template = cell_template()
    load = NodeLoad(executors={"1.vision": NodeLoad(0.25, 300, "ready", 2, 1)})
    seen = instance_view(instance("i1", PREFILL), None, "qwen", gang_of(template), {0: held(0, load)})
    assert [(each.components, each.devices) for each in seen.nodes] == [
        (("vision",), (0,)),
        (("vision",), (1,)),
        (("vision", "language"), (2, 3)),
    ]
    assert [each.cpu_share for each in seen.nodes] == [None, 0.25, None]
    assert [(each.component, each.running) for each in seen.executors] == [("vl", 0), ("vl", 2), ("vl", 0)]


def test_an_instance_whose_plan_is_gone_is_seen_by_what_its_template_says() -> None:
    seen = instance_view(instance("i1", PREFILL), None, "tiny", gang_of(PREFILL.template), {})
    assert (seen.model, seen.leg, seen.units_per_s, seen.kv_used) == ("tiny", "", 0.0, None)


def request(database: Database, name: str, plan_id: str, later_s: int) -> Instance:
    new = Instance(name, PREFILL.template.id, ZONE, MARKET, InstanceState.REQUESTED, (), fleet="f")
    at = START + timedelta(seconds=later_s)
    return PostgresInstances(database).request(new, PREFILL.template, plan_id, at)


def test_plans_of_a_fleet_begin_with_that_of_the_youngest_instance(database: Database) -> None:
    for number, plan_id in enumerate(("plan-b", "plan-a", "plan-b", "plan-c", "plan-a")):
        request(database, f"i{number}", plan_id, -number)  # the order of writing counts, not the clock
    assert PostgresInstances(database).plans_of_fleet("f") == ("plan-a", "plan-c", "plan-b")
    assert PostgresInstances(database).plans_of_fleet("g") == ()


def test_a_fleet_whose_plans_were_thrown_away_does_not_break_the_others(database: Database) -> None:
    request(database, "i0", "plan-that-is-gone", 0)
    assert fleet_statuses(database, instance_views(database), {}) == []


def test_nothing_on_record_is_no_fleet(database: Database, tmp_path: Path) -> None:
    assert fleet_statuses(database, instance_views(database), {}) == []
