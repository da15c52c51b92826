"""Cents that add up, periods, and lines."""

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.ledger.charge import Charge
from control.ledger.cost_line import LEAKED, By, cost_lines
from control.ledger.money import cents, cents_of_parts
from control.ledger.period import Period, day_so_far, month_so_far, rest_of_month

AMOUNTS = st.fractions(min_value=0, max_value=10**6, max_denominator=3600 * 10**6)


@given(st.lists(AMOUNTS, max_size=30))
def test_the_cents_of_parts_add_up_to_those_of_the_whole_and_none_is_off_by_a_cent(parts: list[Fraction]) -> None:
    found = cents_of_parts(parts)
    assert sum(found) == cents(sum(parts, Fraction(0)))
    assert all(abs(whole - 100 * part) < 1 for whole, part in zip(found, parts, strict=True))


def charge(usd: int, instance: str = "i1", cloud: str = "aws", model: str = "m") -> Charge:
    leaked = not instance
    return Charge(
        instance,
        "f",
        "" if leaked else "p",
        "" if leaked else model,
        cloud,
        "spot",
        Fraction(usd, 3),
        Fraction(1),
        1,
        0,
    )


def test_lines_are_by_what_is_asked_for_the_dearest_first_and_a_leak_is_apart() -> None:
    charges = [charge(1), charge(7, "i2"), charge(1, "i3", "gcp", "n"), charge(2, "")]
    assert [line.name for line in cost_lines(charges, By.INSTANCE)] == ["i2", LEAKED, "i1", "i3"]
    assert {line.name: line.nodes for line in cost_lines(charges, By.MODEL)} == {"m": 2, "n": 1, LEAKED: 1}
    assert {line.name for line in cost_lines(charges, By.CLOUD)} == {"aws", "gcp"}
    for by in By:
        assert round(sum(line.usd for line in cost_lines(charges, by)), 6) == 3.67


def test_days_and_months_are_those_of_utc() -> None:
    now = datetime.fromisoformat("2026-12-31T22:30:00-05:00")
    assert day_so_far(now).since == datetime(2027, 1, 1, tzinfo=UTC)
    assert month_so_far(now).since == datetime(2027, 1, 1, tzinfo=UTC)
    for month in range(1, 13):
        last = datetime(2028, month, 28, 23, tzinfo=UTC)
        until = rest_of_month(last).until
        assert (until.day, until.hour, until.month) == (1, 0, month % 12 + 1)
    with pytest.raises(ValueError, match="before it begins"):
        Period(now, datetime(2026, 1, 1, tzinfo=UTC))
