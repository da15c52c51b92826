"""Specs as worlds, and worlds as plans."""

import time
from functools import partial
from pathlib import Path

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.planning.session import PlanningSession
from control.planning.world import World, read_world
from control.simulator.attainment import SimulatedAttainment
from templates_lib.values.plan import Plan

KEEP_SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: chat
models:
  - model: gpt-oss-20b
    slo: {{ttft_ms: 1500, tpot_ms: 60, keep: {keep}}}
    workload: azure-conversation
    demand: {{requests_per_s: 20}}
clouds:
  - {{cloud: aws, regions: [us-east-2], gpus: [L40S, L4]}}
solver: {{n_max: 1}}
"""
"""One model that promises `keep`."""
ROUGHLY = partial(SimulatedAttainment, requests=4_000)
"""For tests of what becomes of promises, not of how well they are known: a sixth of the requests of a certificate."""
NOON = "2026-11-21T12:00:00+00:00"


def world_of(folder: Path, text: str) -> World:
    """Of a spec file with this text in `folder`. Raises SpecError."""
    spec = folder / "fleet.yaml"
    spec.write_text(text)
    return read_world(spec)


def planned(database: Database, world: World) -> Plan:
    session = PlanningSession(PostgresLibraries(database), PostgresPlans(database), lambda *_: None, time.perf_counter)
    recording, templates = session.record(world, NOON)
    return session.plan(recording, templates, baselines=False).plan
