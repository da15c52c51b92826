"""The rent of a shared unit, split over its members."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.shared_units.member_rents import in_dollars, split_rent

shares, usd = st.floats(0, 1), st.floats(0, 1e4)
members = st.lists(st.tuples(st.tuples(shares, shares), usd), min_size=1, max_size=8)


@given(members, st.floats(0, 1))
def test_a_rent_is_paid_to_the_last_digit_and_nobody_pays_more_than_alone(
    unit: list[tuple[tuple[float, float], float]], part: float
) -> None:
    uses, alone = [uses for uses, _ in unit], [cost for _, cost in unit]
    rent = part * math.fsum(alone) * (1 - 1e-9)  # as units are planned that cost no more than nodes of single models
    paid = split_rent(Fraction(rent), uses, alone)
    assert sum(paid) == Fraction(rent)
    assert all(0 <= each <= most for each, most in zip(paid, alone, strict=True))
    dominant = [Fraction(max(each)) for each in uses]
    open_ = [i for i, each in enumerate(paid) if each < alone[i]]
    for i in open_:
        for k in range(len(unit)):  # in proportion, and who pays as much as alone pays no more for its share
            assert paid[i] * dominant[k] >= paid[k] * dominant[i]
    dollars = in_dollars(paid, rent)
    assert sum(dollars) == sum(reversed(dollars)) == rent
    assert all(abs(Fraction(each) - exact) <= math.ulp(rent) for each, exact in zip(dollars, paid, strict=True))


@given(members, st.floats(0, 1e5))
def test_a_rent_above_what_all_would_pay_alone_is_paid_too(
    unit: list[tuple[tuple[float, float], float]], rent: float
) -> None:
    paid = split_rent(Fraction(rent), [uses for uses, _ in unit], [cost for _, cost in unit])
    assert sum(paid) == Fraction(rent)
    assert min(paid) >= 0
    assert sum(in_dollars(paid, rent)) == rent


@pytest.mark.parametrize(
    ("uses", "alone", "expected"),
    [
        ([(0.2, 0.1), (0.1, 0.6)], [math.inf, math.inf], [2, 6]),  # what is idle in the same proportion
        ([(0.2, 0.1), (0.1, 0.6)], [math.inf, 5], [3, 5]),
        ([(0.0, 0.0), (0.5, 0.0)], [9, 9], [0, 8]),
        ([(0.0, 0.0), (0.0, 0.0)], [9, 9], [4, 4]),
        ([(0.0, 0.0), (0.5, 0.0)], [9, 6], [2, 6]),
        ([(0.1, 0.0), (0.3, 0.0)], [1, 3], [2, 6]),  # alone they would pay less than together
    ],
)
def test_members_pay_by_the_largest_part_that_they_use(
    uses: list[tuple[float, float]], alone: list[float], expected: list[float]
) -> None:
    assert [float(each) for each in split_rent(Fraction(8), uses, alone)] == pytest.approx(expected)
