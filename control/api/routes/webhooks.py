"""Items[Webhook]: where alerts are sent. For admins only: the URL of many a webhook is its password."""

import re
import threading
from dataclasses import asdict
from typing import Annotated

from fastapi import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from control.access.role import Role
from control.actions import webhooks
from control.alerts.endpoint import MAX_URL
from control.api.documented import needs, problems
from control.api.etag import Version, VersionOrNone, tagged
from control.api.guarded_route import ActOf, ServicesOf, api_router
from control.api.page import Items
from control.api.problem import ApiError
from control.api.text import PathName
from control.db import webhooks as stored
from control.db.alerts import PostgresAlerts
from control.db.database import Database
from policies.alert_rules import AlertKind

router = api_router("alerts")
_ADMIN = needs(Role.ADMIN)
_TRIALS = threading.BoundedSemaphore(2)
"""Most trials at a time: receivers may be slow, and others need this process's threads."""
_ENV_PATTERN = r"^env:MEDLEY_WEBHOOK_[A-Z0-9_]{1,100}$"


def _place(text: str) -> str:
    if not re.fullmatch(_ENV_PATTERN.removesuffix("$"), text):
        # Not repeated: it may be the secret itself.
        raise ValueError("is named by where it is: env:MEDLEY_WEBHOOK_… (capital letters, digits and underscores)")
    return text


Place = Annotated[str, AfterValidator(_place), WithJsonSchema({"type": "string", "pattern": _ENV_PATTERN})]


class WebhookTarget(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: str = Field(min_length=1, max_length=MAX_URL, description="https://…, without user, password and fragment.")
    secret: Place | None = Field(
        default=None,
        description="Where what signs deliveries is: `env:MEDLEY_WEBHOOK_…`, a variable of every process that sends "
        "alerts. Others, and files, are named on the command line only, so that no caller has other secrets used as "
        "keys. Null: as it is.",
    )
    kinds: list[AlertKind] = Field(default=[], max_length=len(AlertKind), description="Empty: all.")
    internal: bool = Field(default=False, description="Allow http, private addresses and this machine.")


class Webhook(BaseModel):
    name: str
    url: str
    secret: str = Field(description="Where it is, `env:NAME` or `file:/PATH`: never itself.")
    kinds: list[str] = Field(description="Kinds of alerts that are sent there; empty: all.")
    internal: bool = Field(description="Whether http and private addresses are allowed.")
    waiting: int = Field(description="Deliveries that wait.")
    because: str = Field(description="Outcome of the last attempt at the oldest of these.")
    version: int


@router.get("/webhooks", responses=problems(), openapi_extra=_ADMIN)
def list_webhooks(services: ServicesOf) -> Items[Webhook]:
    """List webhooks by name."""
    pending = PostgresAlerts(services.database).pending()
    found = stored.PostgresWebhooks(services.database).all()
    return Items(items=[_shown(each, pending.get(each.name, (0, ""))) for each in found])


@router.get("/webhooks/{webhook}", responses=problems(404), openapi_extra=_ADMIN)
def get_webhook(webhook: PathName, response: Response, services: ServicesOf) -> Webhook:
    return _tagged(services.database, webhook, response)


@router.put(
    "/webhooks/{webhook}",
    responses=problems(409, 412, 428, body=True) | {201: {"model": Webhook, "description": "There was none."}},
    openapi_extra=_ADMIN,
)
def put_webhook(
    webhook: PathName, body: WebhookTarget, version: VersionOrNone, act: ActOf, response: Response
) -> Webhook:
    """Make a webhook (`If-None-Match: *`) or replace it (`If-Match`). Its address is checked at every delivery."""
    webhooks.set_webhook(act, webhook, body.url, body.secret, body.kinds, body.internal, version)
    response.status_code = 200 if version else 201
    return _tagged(act.database, webhook, response)


@router.delete("/webhooks/{webhook}", status_code=204, responses=problems(404, 412, 428), openapi_extra=_ADMIN)
def delete_webhook(webhook: PathName, version: Version, act: ActOf) -> None:
    """Remove a webhook, and what still waits to be sent there."""
    webhooks.remove_webhook(act, webhook, version)


@router.post("/webhooks/{webhook}:test", responses=problems(404), openapi_extra=_ADMIN)
def try_webhook(webhook: PathName, act: ActOf) -> webhooks.WebhookTrial:
    """Send `webhook.test`, signed as alerts are, now and once, from this process: it needs the secret, too."""
    if not _TRIALS.acquire(blocking=False):
        raise ApiError(503, "unavailable", "other webhooks are being tried: ask again", headers={"Retry-After": "5"})
    try:
        return webhooks.try_webhook(act, webhook)
    finally:
        _TRIALS.release()


def _shown(found: stored.Webhook, pending: tuple[int, str]) -> Webhook:
    return Webhook(**asdict(found), waiting=pending[0], because=pending[1])


def _tagged(database: Database, name: str, response: Response) -> Webhook:
    found = stored.PostgresWebhooks(database).load(name)
    tagged(response, found.version)
    return _shown(found, PostgresAlerts(database).pending().get(name, (0, "")))
