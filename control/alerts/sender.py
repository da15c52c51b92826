"""Sends what waits to be sent: signed, tried again with growing waits, at least once."""

import hashlib
import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

from control.access.secret import Secret
from control.alerts.endpoint import TIMEOUT_S, Endpoint, NotSentError, post
from control.alerts.secret_source import NoSecretError, read_secret
from control.db.alerts import DueDelivery, PostgresAlerts
from control.db.webhooks import Webhook

FIRST_WAIT, MOST_WAIT = timedelta(seconds=10), timedelta(hours=1)
ATTEMPTS = 12
"""10 s, 20 s, 40 s … an hour: more than four hours in all, after which somebody has noticed by other means."""
_LEASE = timedelta(seconds=6 * TIMEOUT_S)
_AT_ONCE = 8
SIGNATURE_HEADER = "Medley-Signature"


class DeliveryRefusedError(Exception):
    """The receiver has not taken it, or it cannot be sent from here; the message says why."""


@dataclass(frozen=True, slots=True)
class SendReport:
    delivered: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class AlertSender:
    """Sender of what is due. Any number of processes may send: each delivery is one's own for as long as it takes."""

    alerts: PostgresAlerts
    clock: Callable[[], datetime]

    def send_due(self) -> SendReport:
        """All that is due by now. Raises DatabaseUnavailableError."""
        delivered = failed = 0
        while due := self.alerts.take_due(self.clock(), _LEASE):
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                outcomes = list(pool.map(self._deliver, due))
            delivered += sum(outcomes)
            failed += len(outcomes) - sum(outcomes)
        return SendReport(delivered, failed)

    def _deliver(self, due: DueDelivery) -> bool:
        try:
            outcome = posted(due.webhook, due.event, str(due.id), due.body.encode(), self.clock())
        except DeliveryRefusedError as refused:
            outcome = str(refused)
        else:
            self.alerts.delivered(due.id, outcome, self.clock())
            return True
        wait = min(FIRST_WAIT * 2 ** (due.attempts - 1), MOST_WAIT)
        self.alerts.failed(due.id, outcome, self.clock() + wait if due.attempts < ATTEMPTS else None)
        return False


def posted(webhook: Webhook, event: str, delivery: str, body: bytes, now: datetime) -> str:
    """Post a delivery and return the status that the receiver took it with. Raises RefusedError."""
    try:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "medley-alerts/1",
            "Medley-Event": event,
            "Medley-Delivery": delivery,
            SIGNATURE_HEADER: signature(read_secret(webhook.secret), body, now),
        }
        status = post(Endpoint(webhook.url, webhook.internal), body, headers)
    except (NotSentError, NoSecretError, ValueError) as error:
        raise DeliveryRefusedError(str(error)) from None
    if not 200 <= status < 300:
        raise DeliveryRefusedError(f"HTTP {status}")
    return f"HTTP {status}"


def signature(secret: Secret, body: bytes, now: datetime) -> str:
    """Return the signature `t=1732190400,v1=9f…`: seconds since 1970, and the digest of `t`, a dot and the body, in
    hexadecimal."""
    at = str(int(now.timestamp()))
    digest = hmac.new(secret.reveal().encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"
