"""Alerts, and the rules that open them."""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from control.api.documented import problems
from control.api.guarded_route import ServicesOf, api_router
from control.api.page import Cursor, Items, Limit, Page, after, page
from control.db.alerts import PastAlert, PostgresAlerts
from policies.alert_rules import RULES, AlertKind

router = api_router("alerts")


class Alert(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    kind: AlertKind
    subject: str = Field(description="What it is about, such as `fleet chat`.")
    severity: str = Field(description="warning or critical")
    text: str
    opened_at: str
    resolved_at: str = Field(description="Empty: it is open.")


class Rule(BaseModel):
    kind: AlertKind
    when: str


@router.get("/alerts", responses=problems())
def list_alerts(
    services: ServicesOf,
    limit: Limit = 50,
    cursor: Cursor = None,
    every: Annotated[bool, Query(alias="all", description="Also resolved ones.")] = False,
) -> Page[Alert]:
    """List alerts, the newest first."""
    (before,) = after(cursor, int) or (None,)
    rows = PostgresAlerts(services.database).recent(
        limit + 1, open_only=not every, before=None if before is None else int(before)
    )
    return page(rows, limit, Alert.model_validate, _key)


@router.get("/alerts/rules", responses=problems())
def list_rules(services: ServicesOf) -> Items[Rule]:  # noqa: ARG001 - as every route has it
    """List the rules of alerts."""
    return Items(items=[Rule(kind=kind, when=when) for kind, when in RULES.items()])


def _key(row: PastAlert) -> tuple[int]:
    return (row.id,)
