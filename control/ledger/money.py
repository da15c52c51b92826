"""Dollars without a rounding error: exact fractions inside, cents that add up outside."""

from collections.abc import Sequence
from fractions import Fraction

SECONDS_PER_HOUR = 3600


def cents(usd: Fraction) -> int:
    """The nearest whole cent, halves to the even one."""
    return round(usd * 100)


def cents_of_parts(parts: Sequence[Fraction]) -> list[int]:
    """Round each part to cents so that they add up to the cents of the whole: no column of figures contradicts its
    total.

    Every part is rounded down, and the cents that are missing then go to the largest remainders, the first of equal
    ones first (Hamilton's method).
    """
    floors = [part * 100 // 1 for part in parts]
    missing = cents(sum(parts, Fraction(0))) - sum(floors)
    by_remainder = sorted(range(len(parts)), key=lambda i: (floors[i] - parts[i] * 100, i))
    lucky = set(by_remainder[:missing])
    return [int(floor) + (i in lucky) for i, floor in enumerate(floors)]


def dollars(whole_cents: int) -> float:
    """Convert to a number, for programs."""
    return whole_cents / 100
