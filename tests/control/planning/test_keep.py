"""`slo.keep` from the spec to the plan: certified by simulation, dearer than throughput, and said."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from control.checker import check
from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.explain.certificate import unkept
from control.planning.promise import AttainmentOf
from control.planning.recording import Recording, decode, encode
from control.planning.report import PlanReport
from control.planning.session import PlanningSession
from control.planning.templates import Templates
from control.simulator.attainment import SimulatedAttainment
from templates_lib.ports.library_store import TemplateRecord
from templates_lib.values.plan import Attained
from tests.control.fleet.live import a_plan
from tests.control.planning.worlds import KEEP_SPEC, NOON, ROUGHLY, world_of


@dataclass(frozen=True)
class CountedLibraries(PostgresLibraries):
    """Libraries that note which records are read."""

    read: list[str] = field(default_factory=list)

    def record(self, version: str, template_id: str) -> TemplateRecord:
        self.read.append(template_id)
        return super().record(version, template_id)


def _session(database: Database, attainment: AttainmentOf = SimulatedAttainment) -> PlanningSession:
    store = CountedLibraries(database)
    return PlanningSession(store, PostgresPlans(database), lambda *_: None, time.perf_counter, attainment=attainment)


def _planned(session: PlanningSession, tmp_path: Path, keep: str) -> tuple[PlanReport, Recording, Templates]:
    recording, templates = session.record(world_of(tmp_path, KEEP_SPEC.format(keep=keep)), NOON)
    return session.plan(recording, templates, baselines=False), recording, templates


def test_a_percentile_is_certified_where_the_spec_asks_for_it(module_database: Database, tmp_path: Path) -> None:
    session = _session(module_database)
    (plain, _, before), (kept, recording, after) = (
        _planned(session, tmp_path, keep) for keep in ("throughput", "{percentile: 99}")
    )
    assert before.library.version != after.library.version
    assert plain.plan.attainment == {}
    assert not kept.plan.unmet
    assert kept.plan.usd_per_hour >= plain.plan.usd_per_hour
    assert {name: (each.percentile, each.is_kept) for name, each in kept.plan.attainment.items()} == {
        "gpt-oss-20b/prefill": (99.0, True),
        "gpt-oss-20b/decode": (99.0, True),
    }
    assert not check(kept.plan, kept.snapshot)
    said = [reason.text for reason in kept.plan.reasons if reason.kind == "certificate"]
    assert len(said) == 1
    assert "gpt-oss-20b/decode, gpt-oss-20b/prefill: 99 %" in said[0]
    assert [each.queueing for each in session.certificates(kept.plan)] == [True]
    again = session.plan(recording, after, baselines=False)
    assert (again.plan.id, again.plan.attainment) == (kept.plan.id, kept.plan.attainment)
    # Requests that the certificate has not seen.
    assert recording.recipe is not None
    for seed in (11, 12):
        unseen = SimulatedAttainment(recording.recipe, after, seed)(kept.plan, kept.snapshot)
        assert min(each.share for each in unseen.values()) >= 0.985


def test_baselines_are_certified_in_the_same_way(module_database: Database, tmp_path: Path) -> None:
    session = _session(module_database, ROUGHLY)
    recording, templates = session.record(world_of(tmp_path, KEEP_SPEC.format(keep="{percentile: 95}")), NOON)
    report = session.plan(recording, templates, baselines=True)
    for plan in report.fleets.values():
        assert plan.attainment
        assert all(each.is_kept and each.percentile == 95 for each in plan.attainment.values())
    assert report.plan.usd_per_hour <= min(each.usd_per_hour for each in report.baselines.values()) + 1e-6


def test_where_supply_is_short_what_is_served_is_served_in_time(module_database: Database, tmp_path: Path) -> None:
    spec = KEEP_SPEC.format(keep="{percentile: 99}").replace("requests_per_s: 20", "requests_per_s: 300") + (
        "policy: {replicas: {gpt-oss-20b/prefill: {max: 1}, gpt-oss-20b/decode: {max: 1}}}\n"
    )
    session = _session(module_database, ROUGHLY)
    recording, templates = session.record(world_of(tmp_path, spec), NOON)
    plan = session.plan(recording, templates, baselines=False).plan
    assert 0 < sum(plan.unmet.values()) < 300
    assert all(each.is_kept for each in plan.attainment.values())


def test_what_is_not_kept_is_said() -> None:
    missed = {"chat/prefill": Attained(0.97, 99, 8_000, 0), "chat/decode": Attained(0.999, 99, 8_000, 0)}
    (reason,) = unkept(replace(a_plan("p"), attainment=missed))
    assert (reason.kind, reason.subject) == ("promise", "chat/prefill")
    assert "97.00 %" in reason.text


@pytest.mark.slow
def test_bursts_that_a_spec_states_are_certified(database: Database, tmp_path: Path) -> None:
    (tmp_path / "arrivals.csv").write_text(
        "arrival_s,input_tokens,output_tokens\n"
        + "".join(f"{n // 40 * 4 + n % 40 * 0.01:.2f},1,1\n" for n in range(400))
    )
    session, costs = _session(database), {}
    for arrivals in ("{cv: 1}", "{trace: ./arrivals.csv}"):
        spec = KEEP_SPEC.format(keep="{percentile: 95}")
        spec = spec.replace("requests_per_s: 20", f"requests_per_s: 20, arrivals: {arrivals}")
        recording, templates = session.record(world_of(tmp_path, spec), NOON)
        plan = session.plan(recording, templates, baselines=False).plan
        assert all(each.is_kept for each in plan.attainment.values())
        costs[arrivals] = plan.usd_per_hour
        # What is recorded says how requests come, so that the plan can be checked elsewhere.
        assert recording.recipe is not None
        again = decode(encode(recording), "recording.json")
        assert again.recipe is not None
        both = [SimulatedAttainment(each.recipe, templates)(plan, recording.snapshot) for each in (recording, again)]
        assert both[0] == both[1] == plan.attainment
    assert costs["{cv: 1}"] < costs["{trace: ./arrivals.csv}"]
