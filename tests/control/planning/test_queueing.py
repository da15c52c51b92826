"""`slo.queueing` from the spec to the plan: a library of its own, dearer, and said."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.planning.session import PlanningSession
from control.planning.templates import Templates
from templates_lib.ports.library_store import TemplateRecord
from templates_lib.values.plan import Plan
from tests.control.planning.worlds import NOON, world_of

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: chat
models:
  - model: gpt-oss-20b
    slo: {{ttft_ms: 1500, tpot_ms: 60, queueing: {queueing}}}
    workload: azure-conversation
    demand: {{requests_per_s: 20}}
clouds:
  - {{cloud: aws, regions: [us-east-2], gpus: [L40S, L4]}}
solver: {{n_max: 2}}
"""


@dataclass(frozen=True)
class CountedLibraries(PostgresLibraries):
    """Libraries that note which records are read."""

    read: list[str] = field(default_factory=list)

    def record(self, version: str, template_id: str) -> TemplateRecord:
        self.read.append(template_id)
        return super().record(version, template_id)


def test_waiting_is_certified_where_the_spec_asks_for_it(database: Database, tmp_path: Path) -> None:
    store = CountedLibraries(database)
    session = PlanningSession(store, PostgresPlans(database), lambda *_: None, time.perf_counter)

    def planned(queueing: str) -> tuple[Plan, Templates]:
        recording, templates = session.record(world_of(tmp_path, SPEC.format(queueing=queueing)), NOON)
        store.read.clear()
        plan = session.plan(recording, templates, baselines=False).plan
        assert sorted(store.read) == sorted({instance.template_id for instance in plan.instances}), "each once"
        return plan, templates

    (plain, before), (waiting, after) = planned("false"), planned("true")
    assert before.library.version != after.library.version
    assert not waiting.unmet
    assert waiting.usd_per_hour > plain.usd_per_hour
    assert [reason.kind for reason in plain.reasons if reason.kind == "certificate"] == []
    said = [reason.text for reason in waiting.reasons if reason.kind == "certificate"]
    assert len(said) == 1
    assert "gpt-oss-20b/decode, gpt-oss-20b/prefill: 99 %" in said[0]
    assert "waiting included" in said[0]
    assert [each.queueing for each in session.certificates(waiting)] == [True]
    assert [each.queueing for each in session.certificates(plain)] == [False]
    assert "alone" in session.certificates(plain)[0].text
