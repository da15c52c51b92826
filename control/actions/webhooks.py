"""Set, try and remove webhooks."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from control.actions.context import ActionContext
from control.actions.refusal import WrongFieldError
from control.alerts.endpoint import Endpoint
from control.alerts.secret_source import check_source
from control.alerts.sender import DeliveryRefusedError, posted
from control.db.webhooks import PostgresWebhooks, Webhook

TRIAL = "webhook.test"


@dataclass(frozen=True, slots=True)
class WebhookTrial:
    delivered: bool
    outcome: str
    """What the receiver answered, such as `HTTP 204`, or why it was not sent."""


def set_webhook(
    act: ActionContext,
    name: str,
    url: str,
    secret: str | None,
    kinds: Iterable[str],
    internal: bool,
    version: int | None = None,
) -> Webhook:
    """Replace or add the webhook of that name: a URL to which alerts are sent. `secret` says where the key that signs
    them is; None: as it is. No `kinds`: all. `internal`: http and private addresses are allowed.

    Raises WrongFieldError; InUseError when there are too many; with `version` (0: there is none) StaleVersionError.
    """
    with act.as_one() as one:
        webhooks, field = PostgresWebhooks(one.database), "url"
        secret = secret or (webhooks.load(name).secret if version else "")
        try:
            Endpoint(url, internal)
            field = "secret"
            check_source(secret)
        except ValueError as error:
            raise WrongFieldError(field, str(error)) from None
        made = webhooks.put(Webhook(name, url, secret, tuple(dict.fromkeys(kinds)), internal), act.now, version)
        done = "made" if made.version == 1 else "changed"
        one.record(f"webhook.{done}", f"{done} webhook {name}", name)
        return made


def remove_webhook(act: ActionContext, name: str, version: int | None = None) -> None:
    """Remove a webhook, and what waits to be sent there. Raises NotStoredError; with `version` StaleVersionError."""
    with act.as_one() as one:
        PostgresWebhooks(one.database).remove(name, version)
        one.record("webhook.removed", f"removed webhook {name}", name)


def try_webhook(act: ActionContext, name: str) -> WebhookTrial:
    """Send `webhook.test`, signed as alerts are, once and from this process, which needs the secret. Raises
    NotStoredError."""
    found = PostgresWebhooks(act.database).load(name)
    try:
        tried = WebhookTrial(True, try_out(found, act.now))
    except DeliveryRefusedError as refused:
        tried = WebhookTrial(False, str(refused))
    outcome = "delivered" if tried.delivered else "not delivered"
    act.record("webhook.tried", f"tried webhook {name}: {outcome}", name)
    return tried


def try_out(webhook: Webhook, now: datetime) -> str:
    """Send a trial and return the status that it was taken with. It is sent and signed as alerts are, from this process
    and at once, and not again.

    Raises RefusedError.
    """
    content = {"event": TRIAL, "webhook": webhook.name, "at": now.astimezone(UTC).isoformat()}
    return posted(webhook, TRIAL, f"test-{secrets.token_hex(8)}", msgspec.json.encode(content), now)
