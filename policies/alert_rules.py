"""Rules that say when an alert holds: pure functions of known facts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from types import MappingProxyType

from policies.attainment import burn_rate

NEAR = 0.8
"""Share of a budget from which on it is worth a warning."""
FAILURES, FAILURES_WITHIN = 5, timedelta(hours=1)
"""Number of failed instances of a fleet, and the time within which that many are no accident: something fails over and
over."""
SAID = 3
"""Number of names that an alert lists; the rest are counted."""
MISSED_WITHIN = timedelta(hours=1)
"""Time over which objectives are judged: as long as the console's."""
MISSES = 5
"""Answers that have to have missed an objective: a smaller number is chance, whatever share it is."""
FAR = 2.0
"""Times the allowed misses above which an objective is certainly broken."""
STALE_AFTER = timedelta(minutes=20)
"""Age of the newest plan above which nobody looks after a fleet: plans are made every few minutes."""


class AlertKind(StrEnum):
    BUDGET_HOUR = "budget.hour"
    BUDGET_MONTH = "budget.month"
    LEAK = "leak"
    UNMET = "demand.unmet"
    NO_OFFERS = "offers.none"
    STOCK_OUT = "offers.stock-out"
    QUARANTINE = "offers.quarantined"
    FAILING = "instances.failing"
    TROUBLE = "fleet.trouble"
    STALE = "reconcile.stale"
    OLD_PROFILE = "profile.stale"
    MISSED = "objective.missed"


RULES: Mapping[AlertKind, str] = MappingProxyType(
    {
        AlertKind.BUDGET_HOUR: f"{NEAR:.0%} of a budget's dollars per hour are spent; critical: more than it allows",
        AlertKind.BUDGET_MONTH: f"{NEAR:.0%} of a month's budget is spent, or at this rate the month will exceed it; "
        "critical: it is exceeded",
        AlertKind.LEAK: "a node exists that no row explains",
        AlertKind.UNMET: "the plan in force does not serve all of a fleet's demand",
        AlertKind.NO_OFFERS: "no offer of that plan has a node to give",
        AlertKind.STOCK_OUT: "a cloud has no node of what that plan rents, or takes such nodes back",
        AlertKind.QUARANTINE: "a cloud names prices that cannot be right",
        AlertKind.FAILING: f"{FAILURES} instances of a fleet failed within {FAILURES_WITHIN.total_seconds() / 60:.0f} "
        "minutes",
        AlertKind.TROUBLE: "a fleet cannot be planned, or its plan cannot be run",
        AlertKind.STALE: f"a fleet was not planned for {STALE_AFTER.total_seconds() / 60:.0f} minutes",
        AlertKind.MISSED: "within an hour more answers of a model missed an objective than its percentile allows; "
        f"critical: more than {FAR:g} times as many",
        AlertKind.OLD_PROFILE: "that plan rests on other step times than the newest one: profiles were made since",
    }
)
"""Conditions under which each alert holds, for people."""


class Severity(IntEnum):
    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Alert:
    kind: AlertKind
    subject: str
    """Subject of the alert, such as `fleet chat`; with the kind it is what makes an alert the same as before."""
    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class BudgetFacts:
    name: str
    """`fleet chat`, `project search`."""
    usd_per_hour_limit: float | None
    usd_per_month_limit: float | None
    usd_per_hour: float
    month_usd: float
    month_forecast_usd: float


@dataclass(frozen=True, slots=True)
class FleetFacts:
    name: str
    unmet: Mapping[str, float]
    """Demand key → requests per second that its plan does not serve."""
    offers: int | None
    """Number of offers that its plan was made from and of which a node could be had; None: there was no plan yet."""
    planned_at: datetime | None
    failures: Sequence[str]
    """Reasons of instances that failed within FAILURES_WITHIN, the last one last."""
    stock_outs: Sequence[str] = ()
    """Keys of offers that its plan rents and that are not asked for now, since they were refused or taken back."""
    has_old_profile: bool = False
    """True where its newest plan was made with other step times than the plan in force."""
    trouble: str = ""
    """Why it cannot be planned or run."""


@dataclass(frozen=True, slots=True)
class ObjectiveFacts:
    """One objective of a model within MISSED_WITHIN."""

    fleet: str
    model: str
    objective: str
    """`TTFT` or `TPOT`."""
    limit_ms: float
    percentile: float
    """Percent of the answers that have to keep it."""
    answers: float
    within: float
    """Share of them that did, 0 to 1."""


@dataclass(frozen=True, slots=True)
class LeakFacts:
    cloud: str
    nodes: int
    """Number of nodes that exist."""
    usd: float
    """Dollars of this month."""


@dataclass(frozen=True, slots=True)
class MarketFacts:
    cloud: str
    quarantined: Sequence[str]
    """Keys of offers whose prices nobody believes."""


@dataclass(frozen=True, slots=True)
class AlertFacts:
    now: datetime
    budgets: Sequence[BudgetFacts] = ()
    leaks: Sequence[LeakFacts] = ()
    fleets: Sequence[FleetFacts] = field(default_factory=tuple)
    markets: Sequence[MarketFacts] = ()
    objectives: Sequence[ObjectiveFacts] = ()


def alerts(facts: AlertFacts) -> tuple[Alert, ...]:
    """All that hold now, each once."""
    found = [alert for budget in facts.budgets for alert in _of_budget(budget)]
    found += [_of_leak(leak) for leak in facts.leaks if leak.nodes]
    found += [alert for fleet in facts.fleets for alert in _of_fleet(fleet, facts.now)]
    found += [_of_market(market) for market in facts.markets if market.quarantined]
    found += [alert for objective in facts.objectives for alert in _of_objective(objective)]
    return tuple(found)


def _of_budget(budget: BudgetFacts) -> Iterable[Alert]:
    rate, limit = budget.usd_per_hour, budget.usd_per_hour_limit
    if limit is not None and rate >= NEAR * limit:
        over = Severity.CRITICAL if rate > limit else Severity.WARNING
        yield Alert(AlertKind.BUDGET_HOUR, budget.name, over, f"{rate:,.2f} of {limit:,.2f} $/h are spent")
    month = budget.usd_per_month_limit
    if month is None:
        return
    spent, ahead = budget.month_usd, budget.month_forecast_usd
    if spent >= NEAR * month or ahead > month:
        over = Severity.CRITICAL if spent > month else Severity.WARNING
        text = f"{spent:,.2f} of {month:,.2f} $ of this month are spent; at this rate it will be {ahead:,.2f} $"
        yield Alert(AlertKind.BUDGET_MONTH, budget.name, over, text)


def _of_objective(objective: ObjectiveFacts) -> Iterable[Alert]:
    misses, burnt = objective.answers * (1 - objective.within), burn_rate(objective.within, objective.percentile)
    if burnt is None or burnt <= 1 or round(misses) < MISSES:
        return
    text = (
        f"{objective.model}: {objective.within:.2%} of {objective.answers:,.0f} answers within an hour kept "
        f"{objective.objective} of {objective.limit_ms:,.0f} ms, where {objective.percentile:g} % have to: {burnt:.3g} "
        "times the misses allowed"
    )
    subject = f"fleet {objective.fleet}, {objective.model}, {objective.objective}"
    yield Alert(AlertKind.MISSED, subject, Severity.CRITICAL if burnt > FAR else Severity.WARNING, text)


def _of_leak(leak: LeakFacts) -> Alert:
    text = (
        f"{leak.nodes} nodes exist that no row explains, {leak.usd:,.2f} $ this month; they are terminated as orphans: "
        "if this stays, the cloud refuses"
    )
    return Alert(AlertKind.LEAK, f"cloud {leak.cloud}", Severity.CRITICAL, text)


def _of_market(market: MarketFacts) -> Alert:
    text = f"not rented, since the price cannot be right: {_some(market.quarantined)}; vouch for those that are"
    return Alert(AlertKind.QUARANTINE, f"cloud {market.cloud}", Severity.WARNING, text)


def _some(names: Sequence[str]) -> str:
    """The first three, and how many more there are."""
    more = f" and {len(names) - SAID} more" if len(names) > SAID else ""
    return ", ".join(sorted(names)[:SAID]) + more


def _of_fleet(fleet: FleetFacts, now: datetime) -> Iterable[Alert]:
    name = f"fleet {fleet.name}"
    if fleet.unmet:
        most = ", ".join(f"{rate:.3g} requests/s of {key}" for key, rate in sorted(fleet.unmet.items())[:5])
        yield Alert(AlertKind.UNMET, name, Severity.WARNING, f"its plan does not serve {most}")
    if fleet.offers == 0:
        text = "no offer that it may use has a node to give: see `medley offers list`"
        yield Alert(AlertKind.NO_OFFERS, name, Severity.CRITICAL, text)
    if fleet.stock_outs:
        text = f"its plan rents {_some(fleet.stock_outs)}, which cannot be had now: the next plan does without"
        yield Alert(AlertKind.STOCK_OUT, name, Severity.WARNING, text)
    if fleet.has_old_profile:
        text = "its plan rests on step times that newer profiles have replaced: hold it to a newer plan"
        yield Alert(AlertKind.OLD_PROFILE, name, Severity.WARNING, text)
    if len(fleet.failures) >= FAILURES:
        text = f"{len(fleet.failures)} instances failed within an hour, the last one because {fleet.failures[-1]}"
        yield Alert(AlertKind.FAILING, name, Severity.CRITICAL, text)
    if fleet.trouble:
        yield Alert(AlertKind.TROUBLE, name, Severity.CRITICAL, f"it {fleet.trouble}")
    if fleet.planned_at is not None and now - fleet.planned_at > STALE_AFTER:
        minutes = (now - fleet.planned_at).total_seconds() / 60
        text = f"not planned for {minutes:.0f} minutes: is `medley reconcile` running, and what does its log say?"
        yield Alert(AlertKind.STALE, name, Severity.CRITICAL, text)
