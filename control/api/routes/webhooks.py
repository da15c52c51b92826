"""Webhooks: where alerts are sent. For admins: many a webhook's URL is all that it takes to write to it."""

import re
import threading
from typing import Annotated

from fastapi import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from control.access.role import Role
from control.alerts.endpoint import MAX_URL, Endpoint
from control.alerts.sender import RefusedError
from control.alerts.trial import try_out
from control.api.caller import CallerOf
from control.api.documented import needs, problems
from control.api.etag import Version, VersionOrNone, tagged
from control.api.guarded_route import ServicesOf, api_router
from control.api.problem import ApiError, field_problem
from control.api.services import Services
from control.api.text import PathName
from control.db import webhooks as stored
from control.db.alerts import PostgresAlerts
from policies.alert_rules import AlertKind

router = api_router("alerts")
_ADMIN = needs(Role.ADMIN)
_TRIALS = threading.BoundedSemaphore(2)
"""At a time: a receiver may take its time, and others need this process's threads."""
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
    kinds: list[str] = Field(description="Of alerts that are sent there; empty: all.")
    internal: bool = Field(description="Whether http and private addresses are allowed.")
    waiting: int = Field(description="What is still to be sent there.")
    because: str = Field(description="What the last attempt at the oldest of these said.")
    version: int


class Webhooks(BaseModel):
    items: list[Webhook]


class Tried(BaseModel):
    delivered: bool
    outcome: str = Field(description="What the receiver answered, such as `HTTP 204`, or why it was not sent.")


@router.get("/webhooks", responses=problems(), openapi_extra=_ADMIN)
def list_webhooks(services: ServicesOf) -> Webhooks:
    """By name."""
    pending = PostgresAlerts(services.database).pending()
    found = stored.PostgresWebhooks(services.database).all()
    return Webhooks(items=[_shown(each, pending.get(each.name, (0, ""))) for each in found])


@router.get("/webhooks/{webhook}", responses=problems(404), openapi_extra=_ADMIN)
def get_webhook(webhook: PathName, response: Response, services: ServicesOf) -> Webhook:
    return _answer(services, webhook, response)


@router.put(
    "/webhooks/{webhook}",
    responses=problems(409, 412, 428, body=True) | {201: {"model": Webhook, "description": "There was none."}},
    openapi_extra=_ADMIN,
)
def put_webhook(
    webhook: PathName,
    body: WebhookTarget,
    version: VersionOrNone,
    caller: CallerOf,
    response: Response,
    services: ServicesOf,
) -> Webhook:
    """Make a webhook (`If-None-Match: *`) or replace it (`If-Match`). Its address is checked at every delivery."""
    now = services.clock()
    try:
        Endpoint(body.url, body.internal)
    except ValueError as error:
        raise _wrong("url", str(error)) from None
    with services.database.as_one() as database:
        webhooks = stored.PostgresWebhooks(database)
        secret = body.secret or (webhooks.load(webhook).secret if version else "")
        if not secret:
            raise _wrong("secret", "a new webhook needs a secret: env:MEDLEY_WEBHOOK_…")
        kinds = tuple(dict.fromkeys(body.kinds))
        webhooks.put(stored.Webhook(webhook, body.url, secret, kinds, body.internal), now, version)
        done = "changed" if version else "made"
        caller.did(database, now, f"webhook.{done}", f"{done} webhook {webhook}", subject=webhook)
    response.status_code = 200 if version else 201
    return _answer(services, webhook, response)


@router.delete("/webhooks/{webhook}", status_code=204, responses=problems(404, 412, 428), openapi_extra=_ADMIN)
def delete_webhook(
    webhook: PathName,
    version: Version,
    caller: CallerOf,
    services: ServicesOf,
) -> None:
    """Nothing is sent there any more, what waits included."""
    now = services.clock()
    with services.database.as_one() as database:
        stored.PostgresWebhooks(database).remove(webhook, version)
        caller.did(database, now, "webhook.removed", f"removed webhook {webhook}", subject=webhook)


@router.post("/webhooks/{webhook}:test", responses=problems(404), openapi_extra=_ADMIN)
def try_webhook(webhook: PathName, caller: CallerOf, services: ServicesOf) -> Tried:
    """Send `webhook.test`, signed as alerts are, now and once, from this process: it needs the secret, too."""
    found = stored.PostgresWebhooks(services.database).load(webhook)
    if not _TRIALS.acquire(blocking=False):
        raise ApiError(503, "unavailable", "other webhooks are being tried: ask again", headers={"Retry-After": "5"})
    try:
        tried = Tried(delivered=True, outcome=try_out(found, services.clock()))
    except RefusedError as refused:
        tried = Tried(delivered=False, outcome=str(refused))
    finally:
        _TRIALS.release()
    with services.database.as_one() as database:
        what = f"tried webhook {webhook}: {'delivered' if tried.delivered else 'not delivered'}"
        caller.did(database, services.clock(), "webhook.tried", what, subject=webhook)
    return tried


def _shown(found: stored.Webhook, pending: tuple[int, str]) -> Webhook:
    waiting, because = pending
    return Webhook(
        name=found.name, url=found.url, secret=found.secret, kinds=list(found.kinds), internal=found.internal,
        waiting=waiting, because=because, version=found.version,
    )  # fmt: skip


def _answer(services: Services, name: str, response: Response) -> Webhook:
    found = stored.PostgresWebhooks(services.database).load(name)
    tagged(response, found.version)
    return _shown(found, PostgresAlerts(services.database).pending().get(name, (0, "")))


def _wrong(field: str, message: str) -> ApiError:
    return ApiError(422, "invalid", message, errors=[field_problem((field,), message)])
