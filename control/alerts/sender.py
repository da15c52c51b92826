"""Sends what waits to be sent: signed, tried again with growing waits, at least once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

from control.alerts.endpoint import TIMEOUT_S, Endpoint, NotSentError, post
from control.alerts.secret_source import NoSecretError, read_secret
from control.alerts.signature import HEADER, signature
from control.db.alerts import DueDelivery, PostgresAlerts

FIRST_WAIT, MOST_WAIT = timedelta(seconds=10), timedelta(hours=1)
ATTEMPTS = 12
"""10 s, 20 s, 40 s … an hour: more than four hours in all, after which somebody has noticed by other means."""
_LEASE = timedelta(seconds=6 * TIMEOUT_S)
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Sent:
    delivered: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class AlertSender:
    """Any number of processes may send: each delivery is one's own for as long as it takes."""

    alerts: PostgresAlerts
    clock: Callable[[], datetime]

    def send_due(self) -> Sent:
        """All that is due by now. Raises DatabaseUnavailableError."""
        delivered = failed = 0
        while due := self.alerts.take_due(self.clock(), _LEASE):
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                outcomes = list(pool.map(self._deliver, due))
            delivered += sum(outcomes)
            failed += len(outcomes) - sum(outcomes)
        return Sent(delivered, failed)

    def _deliver(self, due: DueDelivery) -> bool:
        try:
            status = self._post(due)
        except (NotSentError, NoSecretError, ValueError) as error:
            outcome = str(error)
        else:
            outcome = f"HTTP {status}"
            if 200 <= status < 300:
                self.alerts.delivered(due.id, outcome, self.clock())
                return True
        wait = min(FIRST_WAIT * 2 ** (due.attempts - 1), MOST_WAIT)
        self.alerts.failed(due.id, outcome, self.clock() + wait if due.attempts < ATTEMPTS else None)
        return False

    def _post(self, due: DueDelivery) -> int:
        """Raises NotSentError, NoSecretError, ValueError for a URL that nothing is sent to."""
        body, secret = due.body.encode(), read_secret(due.webhook.secret)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "medley-alerts/1",
            "Medley-Event": due.event,
            "Medley-Delivery": str(due.id),
            HEADER: signature(secret, body, self.clock()),
        }
        return post(Endpoint(due.webhook.url, due.webhook.internal), body, headers)
