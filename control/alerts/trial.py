"""A trial delivery, with which people check that a webhook works before the first alert."""

import secrets
from datetime import UTC, datetime

import msgspec

from control.alerts.sender import posted
from control.db.webhooks import Webhook

EVENT = "webhook.test"


def try_out(webhook: Webhook, now: datetime) -> str:
    """Send a trial and return the status that it was taken with. It is sent and signed as alerts are, from this process
    and at once, and not again.

    Raises RefusedError.
    """
    content = {"event": EVENT, "webhook": webhook.name, "at": now.astimezone(UTC).isoformat()}
    return posted(webhook, EVENT, f"test-{secrets.token_hex(8)}", msgspec.json.encode(content), now)
