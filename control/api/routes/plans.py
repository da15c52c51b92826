"""Plans: made as dry runs, looked at, approved or applied."""

from datetime import datetime
from typing import Any

import msgspec
from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from control.actions.decide_plan import DRAFT
from control.actions.projects import check_project
from control.api.documented import problems
from control.api.fleet_document import SpecDocument, checked
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.ids import PlanId
from control.api.page import Cursor, Limit, Page, before, page
from control.api.problem import ApiError
from control.api.routes.operations import Operation, accepted
from control.api.text import QueryText
from control.api.what_if import WhatIfBody
from control.api.work.requests import ExplainRequest, PlanRequest
from control.db.fleets import PostgresFleets
from control.db.operations import PostgresOperations
from control.db.plan_summary import ListedPlan, PlanSummary, PostgresPlanList
from control.db.plans import PostgresPlans
from control.db.registered_models import PostgresModels
from control.explain import Explanation, explain_at_once
from control.given_name import NAME_PATTERN
from control.planning.proof import proof_text
from control.planning.report import unmet_share
from control.planning.shared_unit import SharedUnit, shared_unit
from control.planning.step_time_lines import step_time_lines
from control.planning.what_if import WhatIf
from templates_lib.ports.plan_store import Baseline
from templates_lib.values.plan import Flow, PlannedOffer, Reason
from templates_lib.values.step_time_basis import StepTimeBasis
from templates_lib.values.work import Demand

router = api_router("plans")


_SERVED_SHARE = 1e-6
_HOMOGENEOUS = ("homo", "homo_joint")
"""Homo chooses for each model alone, so that it is short where models want the same nodes: Homo-joint stands in."""


class Saving(BaseModel):
    baseline: str = Field(
        description="`homo`: every model takes its cheapest homogeneous single-node replicas. `homo_joint`, where that "
        "serves less than the plan or breaks a guardrail: homogeneous replicas chosen together."
    )
    baseline_usd_per_hour: float
    usd_per_hour: float = Field(description="Saved.")
    share: float = Field(description="Share of the baseline's cost.")


class NewPlan(BaseModel):
    """A dry run of a stored fleet, of a draft of it, or of a draft alone; with `what_if` under other conditions."""

    model_config = ConfigDict(extra="forbid")

    fleet: str | None = Field(default=None, pattern=NAME_PATTERN)
    spec: SpecDocument | None = Field(default=None, description="A draft, which is checked and not kept.")
    what_if: WhatIfBody | None = None
    baselines: bool = Field(default=True, description="Compare with the baselines.")
    project: str | None = Field(
        default=None,
        pattern=rf"^$|{NAME_PATTERN}",
        description="The project whose budgets limit `spec`; null: the stored one, or default; empty: a new project, "
        "which has none.",
    )
    over_budget: bool = Field(
        default=False,
        description="Also make a plan that leaves demand unmet for lack of budget; else it fails, with the numbers.",
    )

    @model_validator(mode="after")
    def _one(self) -> "NewPlan":
        if self.fleet is None and self.spec is None:
            raise ValueError("give fleet, spec or both")
        if self.spec is None and self.project is not None:
            raise ValueError("project belongs to spec: a stored fleet has one")
        return self


class PlanItem(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: str
    fleet: str
    policy: str = Field(description="`medley`, or the baseline that made it.")
    created_at: datetime
    snapshot_version: str
    usd_per_hour: float
    summary: PlanSummary = Field(
        description="`status`: `optimal`, its cost is proven to be within the solver's tolerance of the optimum, see "
        "`gap`; `feasible`, it is not; `partial`, some demand is unmet."
    )
    proof: str = Field(description="How near the optimum it is known to be, for people; `optimal` for no gap only.")
    baselines: list[Baseline]
    draft: bool = Field(description="Whether it is of a draft or a what-if, which no fleet can accept.")
    saving: Saving | None = Field(
        description="Against the homogeneous baseline; null: none was made, or it serves less."
    )


class PlannedInstances(BaseModel):
    """`count` equal instances of a template in one zone and market."""

    template_id: str
    model: str
    phase: str
    zone: str
    market: str
    count: int
    running: int
    nodes: dict[str, int]
    units_per_s: dict[str, float]
    usd_per_hour: float = Field(description="Rent of all `count` instances, with the disks of their nodes.")
    disk_gib: int = Field(description="Disk of each node, as it is charged; 0: none is.")
    engines: str = Field(description="Engines on its nodes, joined by +; empty: not kept.")
    placement: dict[str, Any] | None
    unit: SharedUnit | None = Field(
        default=None, description="Models that share its node, and what one unit does of each; null: none do."
    )


class Plan(PlanItem):
    library_version: str
    rent_usd_per_hour: float
    disks_usd_per_hour: float
    traffic_usd_per_hour: float
    spot_risk_usd_per_hour: float
    objective: float
    instances: list[PlannedInstances]
    offers: list[PlannedOffer]
    flows: list[Flow]
    demand: list[Demand]
    unmet_share: float = Field(description="Share of all requests, 0 to 1.")
    duals: dict[str, float] = Field(description="LP shadow prices by row name, $/h per unit.")
    reasons: list[Reason]
    step_times: list[StepTimeBasis] = Field(
        description="By GPU and engine, what step times rest on and their median relative error; empty: not known."
    )
    step_time_lines: list[str] = Field(description="The same for people.")


class PlanExplanation(BaseModel):
    plan_id: str
    explained_at: datetime | None = Field(description="null: by the plan's own relaxation; nothing is verified.")
    explanation: Explanation


@router.get("/plans", responses=problems())
def list_plans(
    services: ServicesOf, limit: Limit = 50, cursor: Cursor = None, fleet: QueryText = None
) -> Page[PlanItem]:
    """List plans, the newest first. Drafts and what-ifs of a fleet are listed under `FLEET~draft`."""
    rows = PostgresPlanList(services.database).page(limit + 1, before(cursor), fleet)
    return page(rows, limit, _item, lambda row: (row.created_at.isoformat(), row.id))


@router.post("/plans", status_code=202, responses=problems(404, body=True))
def create_plan(body: NewPlan, act: ActOf, response: Response, services: ServicesOf) -> Operation:
    """Solve, and touch nothing. The operation's result names the plan; over budget, it fails with the numbers."""
    with act.database.as_one() as database:
        name = body.fleet or ""
        if body.fleet is not None:
            PostgresFleets(database).load(body.fleet)
        if body.spec is not None:
            drafted = checked(body.spec, PostgresModels(database).own()).name
            if body.fleet not in (None, drafted):
                raise ApiError(422, "invalid", f"spec.name is {drafted!r}, but fleet is {body.fleet!r}")
            name = drafted
        if body.project:
            check_project(database, body.project)
        supposed = None if body.what_if is None else msgspec.convert(body.what_if.model_dump(), WhatIf)
        request = PlanRequest(
            name, body.spec, supposed, body.baselines, project=body.project, over_budget=body.over_budget
        )
        content = msgspec.to_builtins(request)
        operation = PostgresOperations(database).create("plan", content, name, act.actor, act.trace, act.now)
    services.work_waits()
    return accepted(response, operation)


@router.get("/plans/{plan}", responses=problems(404))
def get_plan(plan: PlanId, services: ServicesOf) -> Plan:
    """One plan with what it is based on."""
    plans = PostgresPlans(services.database)
    listed, found = PostgresPlanList(services.database).of(plan), plans.load(plan)
    snapshot = plans.snapshot(found.snapshot_version)
    more: dict[str, Any] = msgspec.to_builtins(found)
    more |= _item(listed).model_dump() | {"demand": snapshot.demand, "unmet_share": unmet_share(found, snapshot)}
    for entry, instance in zip(more["instances"], found.instances, strict=True):
        entry["unit"] = shared_unit(instance)
    more["step_time_lines"] = list(step_time_lines(found.step_times))
    more["saving"] = saving_of(listed, more["unmet_share"])
    return Plan.model_validate(more)


@router.get("/plans/{plan}/explanation", responses=problems(404))
def get_explanation(plan: PlanId, services: ServicesOf) -> PlanExplanation:
    """The result of the newest `:explain` of this plan; before one, what its own shadow prices say."""
    listed = PostgresPlanList(services.database).of(plan)
    done = PostgresOperations(services.database).of_plan("explain", plan, listed.fleet)
    if not done:
        plans = PostgresPlans(services.database)
        made = plans.load(plan)
        at_once = explain_at_once(made, plans.snapshot(made.snapshot_version))
        return PlanExplanation(plan_id=plan, explained_at=None, explanation=at_once)
    explanation = msgspec.convert(done[0].result, Explanation)
    return PlanExplanation(plan_id=plan, explained_at=done[0].finished_at, explanation=explanation)


@router.post("/plans/{plan}:explain", status_code=202, responses=problems(404))
def explain_plan(plan: PlanId, act: ActOf, response: Response, services: ServicesOf) -> Operation:
    """Begin to explain a plan: which limits bind, what one more node of each kind would save (verified by solving
    again), what the runners-up cost, what is missing. The operation's result says it."""
    listed = PostgresPlanList(act.database).of(plan)
    content, operations = msgspec.to_builtins(ExplainRequest(plan)), PostgresOperations(act.database)
    operation = operations.create("explain", content, listed.fleet, act.actor, act.trace, act.now)
    services.work_waits()
    return accepted(response, operation)


def _item(row: ListedPlan) -> PlanItem:
    return PlanItem(
        id=row.id, fleet=row.fleet.removesuffix(DRAFT), policy=row.policy, created_at=row.created_at,
        snapshot_version=row.snapshot_version, usd_per_hour=row.usd_per_hour, summary=row.summary,
        baselines=list(row.baselines), draft=row.fleet.endswith(DRAFT), saving=saving_of(row, None),
        proof=proof_text(row.summary.status, row.summary.gap),
    )  # fmt: skip


def saving_of(plan: ListedPlan, unmet_share: float | None) -> Saving | None:
    """Compare with the homogeneous baseline that leaves no more unmet and breaks no guardrail. `unmet_share`: of the
    plan, where it is known; where it is not, only a plan that serves everything is compared."""
    if unmet_share is None:
        if plan.summary.unmet:
            return None
        unmet_share = 0.0
    complete = {b.name: b for b in plan.baselines if b.unmet_share <= unmet_share + _SERVED_SHARE and not b.breaks}
    against = next((complete[name] for name in _HOMOGENEOUS if name in complete), None)
    if against is None:
        return None
    saved = against.usd_per_hour - plan.usd_per_hour
    return Saving(
        baseline=against.name,
        baseline_usd_per_hour=against.usd_per_hour,
        usd_per_hour=saved,
        share=saved / against.usd_per_hour if against.usd_per_hour else 0.0,
    )
