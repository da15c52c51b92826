"""Any-to-any models whose answers are promised: their requests are simulated at the planned rates."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bench.graph_allocation import DrawnCosts, library_of, node
from control.allocator import solve
from control.checker import check
from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.planning.graph_sources import UNCERTIFIED
from control.planning.session import PlanningSession
from control.simulator.app_attainment import app_attained
from control.simulator.attainment import SimulatedAttainment
from templates_lib.apps.app_work import AppWork
from templates_lib.apps.graph_app import GraphApp
from templates_lib.cells.division import divided
from templates_lib.graphs.component import Component, ComponentWork, EncoderSpec, Modality
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Network
from templates_lib.graphs.objective import TypeObjective
from templates_lib.graphs.request_type import GraphRequestType
from templates_lib.sources.cell_source import CellSource
from templates_lib.sources.graph_record import read_graph_record
from templates_lib.sources.graph_source import ExecutorSource
from templates_lib.values.plan import Attained, Plan
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Demand, Unit
from tests import factories as make
from tests.control.planning.worlds import NOON, world_of

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: pictures
apps:
  - name: vl
    graph: qwen2.5-vl-7b
    request_types:
      - {type: image-text-to-text, share: 0.7, slo: {ttft_ms: 4000, tpot_ms: 60, percentile: 95}}
      - {type: text-to-text, share: 0.3, slo: {ttft_ms: 3000, tpot_ms: 60}}
    demand: {requests_per_s: 12}
clouds:
  - {cloud: aws, regions: [us-east-2], gpus: [L40S], counts: [1]}
"""
OBJECTIVE = TypeObjective(ttft_ms=1000, tpot_ms=0.001, percentile=90)


def work_of(due_ms: float) -> AppWork:
    """Two stages, of 0.3 and 0.1 s on a node of one GPU."""
    parts = tuple(Component(n, Unit.INVOCATION, EncoderSpec(Network(1.0, (), ())), 8, 8, answers=Modality.TEXT)
                  for n in "ab")  # fmt: skip
    graph = ModelGraph("pair", "", parts, (GraphEdge("a", "b", 8, required=False),))
    works = {"a": ComponentWork(1.0), "b": ComponentWork(1.0)}
    kind = GraphRequestType("both", works, 1.0, replace(OBJECTIVE, ttft_ms=due_ms))
    costs = DrawnCosts({"a": 0.3, "b": 0.1})
    return AppWork(GraphApp("pair", graph, (kind,), (("a",), ("b",))), [node(1)], costs)


def planned(work: AppWork, requests_per_s: float, cap: float) -> tuple[Plan, Snapshot]:
    offers, demand = [make.offer(node(1).id, "cloud/z", 2.0, 100)], (Demand("pair", "both", requests_per_s),)
    settings = Settings(utilisation_cap=cap, startup_minutes=0.0)
    snapshot = replace(make.snapshot(offers, work.routes(), {}, settings=settings), demand=demand)
    plan, found = solve(snapshot, library_of(work)), {}
    for source in (ExecutorSource([work]), CellSource([work])):
        for batch in source.build(source.units(), lambda *_: None):
            for row, record in zip(batch.nodes, batch.records, strict=True):
                nodes = {name: int(n) for name, n in zip(source.configs, row, strict=True) if n}
                template, _ = read_graph_record(record, nodes)
                found[template.id] = template
    return replace(plan, instances=tuple(i.with_template(found[i.template_id]) for i in plan.instances)), snapshot


def attained(due_ms: float, requests_per_s: float, cap: float) -> dict[str, Attained]:
    work = work_of(due_ms)
    return app_attained(work, *planned(work, requests_per_s, cap), 2000, 0.05, 300.0, 0)


def test_requests_that_hardly_meet_take_as_long_as_their_stages() -> None:
    assert {name: each.share for name, each in attained(410, 0.01, 1.0).items()} == {
        "pair/a": pytest.approx(1.0, abs=0.02),
        "pair/b": pytest.approx(1.0, abs=0.02),
    }
    assert all(each.share == 0 for each in attained(390, 0.01, 1.0).values())


def test_the_fuller_the_stages_the_later_the_answers() -> None:
    shares = [min(each.share for each in attained(450, 20.0, cap).values()) for cap in (0.6, 0.8, 1.0)]
    assert shares[0] >= shares[1] > shares[2]
    assert shares[0] > 0.9


def test_an_instance_s_work_is_divided_between_executors_that_have_time_for_it() -> None:
    shares = divided({"e": 5.0, "l": 4.0, "el": 2.0}, [{"e": 5.0}, {"l": 6.0}, {"l": 4.0, "el": 4.0}])
    assert shares[0] == {"e": pytest.approx(5.0)}
    assert divided({"e": 5.0, "l": 1e-14}, [{"e": 5.0, "l": 6.0}]) == [{"e": pytest.approx(5.0)}]
    assert shares[1].get("l", 0) + shares[2].get("l", 0) == pytest.approx(4.0)
    assert shares[2]["el"] == pytest.approx(2.0)
    assert shares[1].get("l", 0) / 6 <= 1 + 1e-6
    assert shares[2].get("l", 0) / 4 + shares[2]["el"] / 4 <= 1 + 1e-6


def test_a_plan_promises_the_types_that_ask_for_it_and_says_which_do_not(database: Database, tmp_path: Path) -> None:
    session = PlanningSession(
        PostgresLibraries(database), PostgresPlans(database), lambda *_: None, time.perf_counter,
        attainment=partial(SimulatedAttainment, requests=2000),
    )  # fmt: skip
    recording, templates = session.record(world_of(tmp_path, SPEC), NOON)
    report = session.plan(recording, templates, baselines=False)
    plan = report.plan
    assert not plan.unmet
    assert check(plan, report.snapshot) == ()
    routes = {route.id: route for route in report.snapshot.routes}
    visited = {leg.work_class for flow in plan.flows if "/image" in flow.route for leg in routes[flow.route].legs}
    assert plan.attainment.keys() == visited
    assert all(each.is_kept and each.percentile == 95 for each in plan.attainment.values())
    assert {reason.subject for reason in plan.reasons if reason.kind == UNCERTIFIED} >= {"vl/text-to-text"}
