"""Scenarios of recorded plans of any-to-any models: each request type is a model, and each request takes a planned
path through executors, for as long as these say."""

import time
from pathlib import Path

import numpy as np
import pytest

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.fleet_file.problem import SpecError
from control.planning.graph_sources import ALONE
from control.planning.recording import encode
from control.planning.session import PlanningSession
from control.simulator.fleet_run import Around
from control.simulator.report.files import write_results
from control.simulator.run import simulate
from control.simulator.scenario import SnapshotScenario, read_scenario
from control.simulator.serving.served import Outcome
from tests.control.planning.worlds import NOON, world_of

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: pictures
apps:
  - name: vl
    graph: qwen2.5-vl-7b
    request_types:
      - {type: image-text-to-text, share: 0.7, slo: {ttft_ms: 4000, tpot_ms: 60}}
      - {type: text-to-text, share: 0.3, slo: {ttft_ms: 3000, tpot_ms: 60}}
    demand: {requests_per_s: 12}
clouds:
  - {cloud: aws, regions: [us-east-2], gpus: [L40S], counts: [1]}
"""
SCENARIO = """\
apiVersion: medley/v1
kind: Scenario
name: pictures
snapshot: pictures.json
minutes: 4
traffic:
  - {model: vl-image-text-to-text, synthetic: poisson, requests_per_s: 8.4}
  - {model: vl-text-to-text, synthetic: poisson, requests_per_s: 3.6}
"""


def test_requests_take_planned_paths_and_are_answered_after_their_stages(
    database: Database, tmp_path: Path, short_tmp: Path
) -> None:
    libraries = PostgresLibraries(database)
    session = PlanningSession(libraries, PostgresPlans(database), lambda *_: None, time.perf_counter)
    recording, templates = session.record(world_of(tmp_path, SPEC), NOON)
    plan = session.plan(recording, templates, baselines=False).plan
    (tmp_path / "pictures.json").write_bytes(encode(recording))
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    scenario = read_scenario(tmp_path / "scenario.yaml")
    assert isinstance(scenario, SnapshotScenario)
    objectives = {model.name: model.slo.ttft_ms for model in scenario.models}
    assert objectives == {"vl-image-text-to-text": 4000 + 100 * 60, "vl-text-to-text": 3000 + 100 * 60}

    result = simulate(scenario, Around(libraries, lambda *_: None, time.perf_counter, short_tmp))
    requests, served = result.requests, result.served
    answered = served.outcome == Outcome.SERVED
    assert answered.mean() > 0.9
    # What a request takes that waits for nothing, as the plan says it of its slowest way.
    alone_s = {each.subject: float(each.text.split(" takes ")[1].split()[0])
               for each in plan.reasons if each.kind == ALONE}  # fmt: skip
    routes = {route.id: route for route in recording.snapshot.routes}
    for name in ("image-text-to-text", "text-to-text"):
        own = answered & (requests.app == requests.apps.index(f"vl-{name}"))
        took_s = (served.finish_s - requests.arrival_s)[own]
        assert len(took_s) > 500
        assert took_s.min() == pytest.approx(alone_s[f"vl/{name}"], rel=0.1)  # lanes are whole
        flows = [flow for flow in plan.flows if routes[flow.route].request_type == name]
        for first in {routes[flow.route].legs[0].work_class for flow in flows}:
            wanted = sum(f.requests_per_s for f in flows if routes[f.route].legs[0].work_class == first)
            able = [number for number, life in enumerate(result.fleet.instances) if first in life.units_per_s]
            share = np.isin(served.places[own, 0], able).mean()
            assert share == pytest.approx(wanted / sum(f.requests_per_s for f in flows), abs=0.02)

    summary = write_results(result, tmp_path / "out", plots=False)
    assert {model.name for model in summary.models} == set(objectives)
    assert all(model.ttft_ms.p50 is not None and not model.makes_text for model in summary.models)


def test_a_fleet_with_apps_that_is_kept_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(SPEC)
    (tmp_path / "scenario.yaml").write_text(SCENARIO.replace("snapshot: pictures.json", "fleet: fleet.yaml"))
    with pytest.raises(SpecError, match="--save-snapshot"):
        read_scenario(tmp_path / "scenario.yaml")
