"""Alerts: what somebody should know, by which rules, and where it is sent."""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from control.access.role import Role
from control.api.documented import needs, problems
from control.api.guarded_route import ServicesOf, api_router
from control.api.page import Cursor, Limit, Page, after, page
from control.db.alerts import PastAlert, PostgresAlerts
from control.db.webhooks import PostgresWebhooks
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


class Rules(BaseModel):
    items: list[Rule]


class Webhook(BaseModel):
    name: str
    url: str
    secret: str = Field(description="Where it is, `env:NAME` or `file:/PATH`: never itself.")
    kinds: list[str] = Field(description="Of alerts that are sent there; empty: all.")
    internal: bool = Field(description="Whether http and private addresses are allowed.")
    waiting: int = Field(description="What is still to be sent there.")
    because: str = Field(description="What the last attempt at the oldest of these said.")


class Webhooks(BaseModel):
    items: list[Webhook]


@router.get("/alerts", responses=problems())
def list_alerts(
    services: ServicesOf,
    limit: Limit = 50,
    cursor: Cursor = None,
    every: Annotated[bool, Query(alias="all", description="Also those that are over.")] = False,
) -> Page[Alert]:
    """The newest first."""
    (before,) = after(cursor, int) or (None,)
    rows = PostgresAlerts(services.database).recent(
        limit + 1, open_only=not every, before=None if before is None else int(before)
    )
    return page(rows, limit, Alert.model_validate, _key)


@router.get("/alerts/rules", responses=problems())
def list_rules(services: ServicesOf) -> Rules:  # noqa: ARG001 - as every route has it
    """What there is an alert for."""
    return Rules(items=[Rule(kind=kind, when=when) for kind, when in RULES.items()])


@router.get("/webhooks", responses=problems(), openapi_extra=needs(Role.ADMIN))
def list_webhooks(services: ServicesOf) -> Webhooks:
    """Where alerts are sent, by name. For admins: many a webhook's URL is all that it takes to write to it."""
    found, pending = PostgresWebhooks(services.database).all(), PostgresAlerts(services.database).pending()
    items = []
    for each in found:
        waiting, because = pending.get(each.name, (0, ""))
        items.append(
            Webhook(
                name=each.name, url=each.url, secret=each.secret, kinds=list(each.kinds), internal=each.internal,
                waiting=waiting, because=because,
            )
        )  # fmt: skip
    return Webhooks(items=items)


def _key(row: PastAlert) -> tuple[int]:
    return (row.id,)
