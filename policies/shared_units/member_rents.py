"""What each member of a shared unit pays of its rent: its dominant share of what the unit has, and no more than it
would pay alone, unless all would pay less alone.

A member's dominant share is the largest part that it uses of any of the unit's limits (Ghodsi et al., Dominant Resource
Fairness, NSDI 2011). Rent is paid in proportion to it, so what nobody uses is, too.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ulp


def split_rent(rent: Fraction, uses: Sequence[Sequence[float]], alone: Sequence[float]) -> list[Fraction]:
    """Return what each member pays of a rent in $/h; together it is all of it, exactly.

    `uses`: of each member, the parts that it uses of the limits; where none uses any, all pay alike. `alone`: what each
    would pay for instances of its own, infinite where there are none. What that spares a member, the others pay in the
    same proportion. Where all together would pay less than the rent, the rest is paid in that proportion as well.
    """
    shares = [Fraction(max(each, default=0.0)) for each in uses]
    paid = _filled(rent, shares, alone)
    beyond = rent - sum(paid)
    return [each + more for each, more in zip(paid, _in_proportion(beyond, shares), strict=True)]


def _filled(rent: Fraction, shares: Sequence[Fraction], most: Sequence[float]) -> list[Fraction]:
    """Pour the rent out over the members, each of whom takes no more than its most."""
    paid, open_ = [Fraction(0)] * len(shares), list(range(len(shares)))
    while open_:
        due = _in_proportion(rent - sum(paid), [shares[i] for i in open_])
        full = [i for i, usd in zip(open_, due, strict=True) if usd > most[i]]
        if not full:
            for i, usd in zip(open_, due, strict=True):
                paid[i] = usd
            break
        for i in full:
            paid[i] = Fraction(most[i])
        open_ = [i for i in open_ if i not in full]
    return paid


def _in_proportion(amount: Fraction, shares: Sequence[Fraction]) -> list[Fraction]:
    whole = sum(shares)
    return [amount * share / whole if whole else amount / len(shares) for share in shares]


def in_dollars(parts: Sequence[Fraction], rent: float) -> list[float]:
    """Round parts of a rent so that they add up to it to the last digit, in any order: to multiples of that digit, by
    largest remainders."""
    digit = Fraction(ulp(rent))
    found = [part // digit for part in parts]
    by_rest = sorted(range(len(parts)), key=lambda i: (found[i] * digit - parts[i], i))
    for i in by_rest[: int(rent / digit) - sum(found)]:
        found[i] += 1
    return [float(each * digit) for each in found]
