"""Jobs of workers, by the kind of the operation."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from control.actions.decide_plan import DRAFT
from control.api.problem import ApiError
from control.api.work.requests import ExplainRequest, ObjectivesRequest, PlanRequest, RefreshRequest
from control.cost.budgets import budget_book
from control.db.budgets import PostgresBudgets
from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.db.ledger import PostgresLedger
from control.db.libraries import PostgresLibraries
from control.db.operations import Operation
from control.db.plans import PostgresPlans
from control.fleet_file.problem import SpecError
from control.given_name import DEFAULT_PROJECT
from control.lifecycle.fleet import FleetMode, FleetRecord
from control.market.refresh import refresh
from control.market.sources import askable_clouds, sources_of
from control.planning.objective_costs import Point, costs_of_stored
from control.planning.objectives import Objective
from control.planning.recording import Recording, versioned
from control.planning.report import SERVED, PlanReport
from control.planning.session import PlanningSession
from control.planning.what_if import supposed
from control.reconcile.live_planner import live_planner
from control.simulator.attainment import SimulatedAttainment
from policies.budget import Allowance


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    operation: Operation
    database: Database
    home: Path
    clock: Callable[[], datetime]
    say: Callable[[str], None]
    """Progress, for people."""

    def progress(self, what: str, done: int, total: int) -> None:
        self.say(f"building {what}: {done:,} of {total:,}")

    def session(self) -> PlanningSession:
        libraries, plans = PostgresLibraries(self.database), PostgresPlans(self.database)
        return PlanningSession(libraries, plans, self.progress, time.perf_counter, attainment=SimulatedAttainment)


def plan(job: Job) -> dict[str, Any]:
    """The result names the plan, what it costs, what it was compared with."""
    request = msgspec.convert(job.operation.request, PlanRequest)
    record = _record(job, request)
    is_draft = request.spec is not None or request.what_if is not None
    now, instances = job.clock(), PostgresInstances(job.database).living()
    book = budget_book(PostgresBudgets(job.database), PostgresLedger(job.database), now)
    allowed = book.allowance(record.name, record.project)
    planner = live_planner(job.database, job.home, job.progress, SimulatedAttainment)

    def as_asked(recording: Recording) -> Recording:
        snapshot = recording.snapshot
        if request.what_if is not None:
            snapshot = supposed(snapshot, request.what_if, planner.world(record).fleet.every_app)
        settings = snapshot.settings.spending_at_most(allowed.usd_per_hour)
        snapshot = versioned(replace(snapshot, settings=settings))
        name = f"{recording.name}{DRAFT}" if is_draft else recording.name
        return replace(recording, name=name, snapshot=snapshot)

    def solved(change: Callable[[Recording], Recording], *, baselines: bool) -> PlanReport:
        try:
            return planner.solve(record, instances, now, supposed=change, baselines=baselines).report
        except SpecError:
            raise
        except (ValueError, LookupError) as error:
            raise ApiError(422, "cannot-be-planned", str(error)) from error

    job.say("solving")
    report = solved(as_asked, baselines=request.baselines)
    budget = report.snapshot.settings.guardrails.max_usd_per_hour
    needed = None
    if budget is not None and _unmet(report):
        job.say("finding what it would take without the budget")
        needed = solved(lambda recording: _unlimited(as_asked(recording)), baselines=False)
        if not request.over_budget and _unmet(needed) < _unmet(report) - SERVED:
            raise _over_budget(report, needed, budget, allowed)
    result: dict[str, Any] = {"plan_id": report.plan.id, "usd_per_hour": report.plan.usd_per_hour}
    result |= {"unmet": report.plan.unmet, "status": report.plan.status, "draft": is_draft}
    if needed is not None:
        result["usd_per_hour_without_budget"] = needed.plan.usd_per_hour
    return result


def explain(job: Job) -> dict[str, Any]:
    """Explain a stored plan; the result is that of `medley explain -o json`."""
    request = msgspec.convert(job.operation.request, ExplainRequest)
    session = job.session()
    made = session.plans.load(request.plan)
    snapshot = session.plans.snapshot(made.snapshot_version)
    library = session.store.load(made.library_version, {i.template_id for i in snapshot.instances})
    job.say("planning variants to compare it with")
    explanation = session.explain(made, snapshot, library)
    found: dict[str, Any] = msgspec.to_builtins(explanation)
    return {"plan_id": made.id, "duals": made.duals, **found}


def objectives(job: Job) -> dict[str, Any]:
    """Plan the fleet of a stored plan under other values of one objective; the result has the curve."""
    request = msgspec.convert(job.operation.request, ObjectivesRequest)
    session = job.session()
    made = session.plans.load(request.plan)
    record = PostgresFleets(job.database).load(job.operation.fleet)

    def said(objective: Objective, point: Point, done: int, total: int) -> None:
        at = objective.axis.text(point.value)
        job.say(f"planned with {objective.axis.label} {at}: {done} of {total} values")

    job.say("reading its templates")
    world = live_planner(job.database, job.home, job.progress, SimulatedAttainment).world(record)
    try:
        costs = costs_of_stored(session, made, world.sources)
        job.say("planning with the first value")
        curve = costs.curve(made, Objective(request.model, request.axis), request.values, said)
    except (ValueError, LookupError) as error:
        raise ApiError(422, "cannot-be-planned", str(error)) from error
    return {"plan_id": made.id, "curve": msgspec.to_builtins(curve)}


def refresh_offers(job: Job) -> dict[str, Any]:
    """Ask clouds for what they sell now, with the credentials of this machine."""
    request = msgspec.convert(job.operation.request, RefreshRequest)
    clouds = request.clouds or askable_clouds(os.environ)
    job.say(f"asking {', '.join(clouds)}")
    done = refresh(job.database, sources_of(clouds, os.environ), job.clock())
    return {"clouds": msgspec.to_builtins(done)}


JOBS: Mapping[str, Callable[[Job], dict[str, Any]]] = {
    "plan": plan, "explain": explain, "objectives": objectives, "refresh-offers": refresh_offers,
}  # fmt: skip


def _record(job: Job, request: PlanRequest) -> FleetRecord:
    if request.spec is None:
        return PostgresFleets(job.database).load(request.fleet)
    text, now, project = msgspec.json.encode(request.spec).decode(), job.clock().isoformat(), request.project
    try:
        there = PostgresFleets(job.database).load(request.fleet)
    except NotStoredError:
        own = DEFAULT_PROJECT if project is None else project
        return FleetRecord(request.fleet, own, text, "", FleetMode.OBSERVE, 0, False, now)
    return replace(there, spec=text, folder="", project=there.project if project is None else project)


def _unlimited(asked: Recording) -> Recording:
    settings = asked.snapshot.settings
    guardrails = replace(settings.guardrails, max_usd_per_hour=None)
    snapshot = replace(asked.snapshot, settings=replace(settings, guardrails=guardrails))
    return replace(asked, name=f"{asked.name.removesuffix(DRAFT)}{DRAFT}", snapshot=versioned(snapshot))


def _unmet(report: PlanReport) -> float:
    return sum(report.plan.unmet.values())


def _over_budget(report: PlanReport, needed: PlanReport, budget: float, allowed: Allowance) -> ApiError:
    plan, whole = report.plan, needed.plan
    unmet = {key: rate for key, rate in plan.unmet.items() if rate > SERVED}
    missing = ", ".join(f"{rate:.5g} requests/s of {key}" for key, rate in unmet.items())
    limit = allowed.reason if budget == allowed.usd_per_hour else f"policy.max_usd_per_hour is {budget:.2f} $/h"
    detail = (
        f"the fleet needs {whole.usd_per_hour:.2f} $/h, but {limit}: within it {missing} would not be served. Raise "
        "that, lower the demand, or ask for the plan with over_budget"
    )
    facts = {"budget_usd_per_hour": budget, "needed_usd_per_hour": whole.usd_per_hour, "unmet": unmet}
    return ApiError(422, "over-budget", detail, facts=facts | {"plan_id": plan.id})
