"""Costs of a period, and forecasts of this day and month."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from control.cost.components import by_component, executors_by_instance
from control.db.burn import spent_between
from control.db.ledger import PostgresLedger
from control.ledger.charge import Charge
from control.ledger.cost_line import By, CostLine, cost_lines
from control.ledger.money import cents, dollars
from control.ledger.period import Period, day_so_far, month_so_far, rest_of_month


@dataclass(frozen=True, slots=True)
class CostReport:
    """Dollars are whole cents. Times are ISO 8601, UTC; days and months too."""

    since: str
    until: str
    by: By
    usd: float
    """Dollars of the period, leaks included. The lines add up to it."""
    lines: tuple[CostLine, ...]
    usd_per_hour: float
    """Dollars an hour now."""
    nodes: int
    """Held now."""
    today_usd: float
    month_usd: float
    month_forecast_usd: float
    """Dollars by the end of the month, if what is held now is held until then at its present cost."""
    leaked_usd: float
    """Dollars of the period for nodes that existed though no row explained them. Zero, normally."""
    leaked_nodes: int
    """Number of such nodes that exist now."""
    unpriced_node_hours: float
    """Hours, in the period, of nodes without a known price: the dollars lack them."""


def cost_report(ledger: PostgresLedger, period: Period, by: By, now: datetime) -> CostReport:
    """Raises DatabaseUnavailableError."""
    this_month, today, rest = month_so_far(now), day_so_far(now), rest_of_month(now)
    month = ledger.charges(this_month)
    charges = month if period == this_month else ledger.charges(period)
    (spent_today,) = spent_between(ledger.database, (today.since, today.until))
    (ahead,) = spent_between(ledger.database, (rest.since, rest.until))
    return CostReport(
        since=_iso(period.since),
        until=_iso(period.until),
        by=by,
        usd=_usd(charges),
        lines=cost_lines(_of_models(ledger, charges) if by is By.MODEL else charges, by),
        usd_per_hour=float(_sum([c.usd_per_hour for c in month])),
        nodes=sum(c.nodes for c in month),
        today_usd=dollars(cents(spent_today.usd)),
        month_usd=_usd(month),
        month_forecast_usd=dollars(cents(_sum([c.usd for c in month]) + ahead.usd)),
        leaked_usd=_usd([c for c in charges if c.leaked]),
        leaked_nodes=sum(c.nodes for c in month if c.leaked),
        unpriced_node_hours=sum(c.unpriced_node_s for c in charges) / 3600,
    )


def _of_models(ledger: PostgresLedger, charges: Sequence[Charge]) -> Iterator[Charge]:
    return by_component(ledger.database, charges, executors_by_instance(ledger.database, charges))


def _usd(charges: Sequence[Charge]) -> float:
    return dollars(cents(_sum([c.usd for c in charges])))


def _sum(parts: Sequence[Fraction]) -> Fraction:
    return sum(parts, Fraction(0))


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")
