"""Which facts are worth an alert, and which are not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from policies.alert_rules import (
    FAILURES,
    STALE_AFTER,
    AlertFacts,
    AlertKind,
    BudgetFacts,
    FleetFacts,
    LeakFacts,
    MarketFacts,
    ObjectiveFacts,
    Severity,
    alerts,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
FINE = FleetFacts("chat", {}, 3, NOW, ())


def found(**facts: object) -> list[tuple[str, str, Severity]]:
    return [(a.kind.value, a.subject, a.severity) for a in alerts(replace(AlertFacts(NOW), **facts))]  # type: ignore[arg-type]


def test_a_fleet_that_fares_well_is_no_news() -> None:
    assert (
        found(fleets=[FINE], budgets=[BudgetFacts("fleet chat", 10, 100, 1, 10, 50)], leaks=[LeakFacts("aws", 0, 3)])
        == []
    )


@pytest.mark.parametrize(
    ("fleet", "kind"),
    [
        (replace(FINE, unmet={"chat/chat": 0.5}), AlertKind.UNMET),
        (replace(FINE, offers=0), AlertKind.NO_OFFERS),
        (replace(FINE, stock_outs=["aws/az1/g6e.xlarge/spot"]), AlertKind.STOCK_OUT),
        (replace(FINE, has_old_profile=True), AlertKind.OLD_PROFILE),
        (replace(FINE, failures=["it broke"] * FAILURES), AlertKind.FAILING),
        (replace(FINE, trouble="cannot be run: no weights"), AlertKind.TROUBLE),
        (replace(FINE, planned_at=NOW - STALE_AFTER - timedelta(seconds=1)), AlertKind.STALE),
    ],
)
def test_what_goes_wrong_with_a_fleet_is_told(fleet: FleetFacts, kind: AlertKind) -> None:
    assert [(k, s) for k, s, _ in found(fleets=[FINE, fleet])] == [(kind, "fleet chat")]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (BudgetFacts("p", 10, None, 8, 0, 0), [("budget.hour", Severity.WARNING)]),
        (BudgetFacts("p", 10, None, 10.5, 0, 0), [("budget.hour", Severity.CRITICAL)]),
        (BudgetFacts("p", None, 100, 1, 10, 101), [("budget.month", Severity.WARNING)]),
        (BudgetFacts("p", None, 100, 1, 80, 90), [("budget.month", Severity.WARNING)]),
        (BudgetFacts("p", None, 100, 1, 101, 110), [("budget.month", Severity.CRITICAL)]),
    ],
)
def test_budgets_warn_before_they_are_gone(budget: BudgetFacts, expected: list[tuple[str, Severity]]) -> None:
    assert [(kind, severity) for kind, _, severity in found(budgets=[budget])] == expected


def test_a_leak_is_critical_while_it_lasts() -> None:
    assert found(leaks=[LeakFacts("aws", 1, 0.5)]) == [("leak", "cloud aws", Severity.CRITICAL)]


def test_prices_that_cannot_be_right_are_told_by_cloud_and_counted() -> None:
    keys = [f"aws/az{number}/g6e.xlarge/spot" for number in range(5)]
    (alert,) = alerts(replace(AlertFacts(NOW), markets=[MarketFacts("aws", keys), MarketFacts("gcp", ())]))
    assert (alert.kind, alert.subject, alert.severity) == (AlertKind.QUARANTINE, "cloud aws", Severity.WARNING)
    assert "az2/g6e.xlarge/spot and 2 more" in alert.text


@pytest.mark.parametrize(
    ("answers", "within", "expected"),
    [
        (1000, 0.9901, []),
        (1000, 0.988, [Severity.WARNING]),
        (1000, 0.97, [Severity.CRITICAL]),
        (40, 0.9, []),  # four misses
        (0, 0.0, []),
    ],
)
def test_an_objective_that_is_missed_more_often_than_allowed_is_told(
    answers: float, within: float, expected: list[Severity]
) -> None:
    objective = ObjectiveFacts("chat", "llama", "TTFT", 6000, 99, answers, within)
    told = found(objectives=[objective])
    assert [severity for _, _, severity in told] == expected
    assert all(kind == AlertKind.MISSED for kind, _, _ in told)
