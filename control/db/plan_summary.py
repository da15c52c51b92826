"""Summaries of plans for lists, apart from their bodies, which are large; and what each was compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Row, case, select, tuple_

from control.db.api_tables import plan_baseline
from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.tables import plan as plan_table
from templates_lib.ports.plan_store import Baseline
from templates_lib.values.plan import Plan


@dataclass(frozen=True, slots=True)
class PlanSummary:
    status: str
    init_usd: float
    unmet: dict[str, float]
    """Demand key → requests per second that the plan does not serve."""
    gap: float
    bound: float
    solve_s: float
    instances: int
    nodes: int


@dataclass(frozen=True, slots=True)
class ListedPlan:
    id: str
    fleet: str
    policy: str
    created_at: datetime
    snapshot_version: str
    usd_per_hour: float
    summary: PlanSummary
    baselines: tuple[Baseline, ...]


def summary_of(plan: Plan) -> PlanSummary:
    instances = sum(i.count for i in plan.instances)
    nodes = sum(o.nodes for o in plan.offers)
    return PlanSummary(plan.status, plan.init_usd, plan.unmet, plan.gap, plan.bound, plan.solve_s, instances, nodes)


@dataclass(frozen=True, slots=True)
class PostgresPlanList:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def page(
        self, limit: int, before: tuple[datetime, str] | None = None, fleet: str | None = None
    ) -> tuple[ListedPlan, ...]:
        """List plans, the newest first, of all fleets or of one."""
        query = _query().order_by(plan_table.c.created_at.desc(), plan_table.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(tuple_(plan_table.c.created_at, plan_table.c.id) < before)
        if fleet is not None:
            query = query.where(plan_table.c.name == fleet)
        return self._read(query)

    def of(self, plan_id: str) -> ListedPlan:
        """Raises NotStoredError."""
        found = self._read(_query().where(plan_table.c.id == plan_id))
        if not found:
            raise NotStoredError(f"plan {plan_id!r} is not stored")
        return found[0]

    def _read(self, query: Any) -> tuple[ListedPlan, ...]:
        with self.database.transaction() as connection:
            rows = connection.execute(query).all()
            compared = select(plan_baseline).where(plan_baseline.c.plan_id.in_([row.id for row in rows]))
            baselines: dict[str, list[Baseline]] = {}
            for row in connection.execute(compared.order_by(plan_baseline.c.usd_per_hour)):
                breaks = msgspec.json.decode(row.breaks, type=tuple[str, ...])
                baselines.setdefault(row.plan_id, []).append(
                    Baseline(row.baseline, row.usd_per_hour, row.unmet_share, breaks)
                )
        return tuple(_listed(row, baselines) for row in rows)


def _query() -> Any:
    columns = [column for column in plan_table.c if column.name != "body"]
    # Plans that were kept before there were summaries.
    return select(*columns, case((plan_table.c.summary.is_(None), plan_table.c.body)).label("body"))


def _listed(row: Row[Any], baselines: Mapping[str, Sequence[Baseline]]) -> ListedPlan:
    if row.summary is None:
        summary = summary_of(msgspec.json.decode(row.body, type=Plan))
    else:
        summary = msgspec.json.decode(row.summary, type=PlanSummary)
    return ListedPlan(
        row.id, row.name, row.policy, row.created_at.astimezone(UTC), row.snapshot_version, row.usd_per_hour, summary,
        tuple(baselines.get(row.id, ())),
    )  # fmt: skip
