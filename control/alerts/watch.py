"""One look at everything that rules judge, and what follows from it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from control.alerts.objectives import objective_facts
from control.alerts.sender import AlertSender, SendReport
from control.cost.budgets import BudgetReport, budget_book
from control.db.alerts import PostgresAlerts
from control.db.budgets import PostgresBudgets
from control.db.database import Database
from control.db.fleet_health import FleetHealth
from control.db.ledger import PostgresLedger
from control.db.live_offers import PostgresOffers
from control.db.webhooks import PostgresWebhooks
from control.ledger.period import month_so_far
from policies.alert_rules import AlertFacts, BudgetFacts, LeakFacts, MarketFacts, alerts

ALERTS_S = 30.0
"""Between two looks of a process."""


@dataclass(frozen=True, slots=True)
class AlertWatch:
    """Watch of what alerts are about. Any number of processes may watch; each alert is one, and so is each delivery of
    it."""

    database: Database
    clock: Callable[[], datetime]

    def step(self) -> SendReport:
        """Look, judge, record and send. Raises DatabaseUnavailableError."""
        recorded = PostgresAlerts(self.database)
        recorded.observe(alerts(self._facts()), PostgresWebhooks(self.database).all(), self.clock())
        return AlertSender(recorded, self.clock).send_due()

    def _facts(self) -> AlertFacts:
        now, ledger = self.clock(), PostgresLedger(self.database)
        book = budget_book(PostgresBudgets(self.database), ledger, now)
        leaks = ledger.leaks(month_so_far(now))
        doubted = PostgresOffers(self.database).quarantined()
        return AlertFacts(
            now=now,
            budgets=tuple(_budget(report) for report in book.reports()),
            leaks=tuple(LeakFacts(leak.cloud, leak.nodes, float(leak.usd)) for leak in leaks),
            fleets=FleetHealth(self.database).facts(now),
            markets=tuple(MarketFacts(cloud, tuple(q.offer.key for q in each)) for cloud, each in doubted.items()),
            objectives=tuple(objective_facts(self.database, now)),
        )


def _budget(report: BudgetReport) -> BudgetFacts:
    return BudgetFacts(
        f"{report.scope} {report.name}",
        report.usd_per_hour_limit,
        report.usd_per_month_limit,
        report.usd_per_hour,
        report.month_usd,
        report.month_forecast_usd,
    )
