"""The split of a model's rent over keys: exact, by what each used, and what nobody used is nobody's."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.ledger.key_work import KeyWork
from control.ledger.money import cents, cents_of_parts
from control.ledger.rent_split import Rent, rent_parts

USD = st.fractions(min_value=0, max_value=10**6, max_denominator=3600 * 10**6)
COUNT = st.integers(0, 10**12)


def text(key: str, prompts: int, answers: int, requests: int = 1) -> KeyWork:
    units = {name: count for name, count in (("m/prefill", prompts), ("m/decode", answers)) if count}
    return KeyWork("f", "m", "p", key, requests, prompts, answers, units)


def made(key: str, **units: int) -> KeyWork:
    return KeyWork("f", "m", "p", key, 1, 0, 0, {f"m/{name}": count for name, count in units.items()})


works = st.lists(
    st.builds(text, st.text("ab", max_size=2), COUNT, COUNT, st.integers(0, 9))
    | st.builds(made, st.just("c"), encode=COUNT, draw=COUNT),
    max_size=8,
)
rents = st.builds(lambda usd, prompts, answers: Rent(usd + prompts + answers, prompts, answers), USD, USD, USD)
used_shares = st.none() | st.floats(0, 2)


@given(rents, used_shares, works)
def test_parts_and_what_is_idle_add_up_to_the_rent(rent: Rent, used: float | None, works: list[KeyWork]) -> None:
    parts = rent_parts(rent, used, works)
    idle = rent.usd - sum(parts, Fraction(0))
    assert len(parts) == len(works)
    assert all(part >= 0 for part in parts)
    if any(work.tokens or work.requests or any(work.units.values()) for work in works):
        assert idle == rent.usd * (1 - Fraction(1 if used is None else min(used, 1.0)))
    else:
        assert idle == rent.usd
    assert sum(cents_of_parts([*parts, idle])) == cents(rent.usd)


@given(rents, used_shares, works, st.integers(0, 7), st.fractions(0, 1, max_denominator=100))
def test_who_has_two_keys_in_place_of_one_pays_the_same(
    rent: Rent, used: float | None, works: list[KeyWork], number: int, share: Fraction
) -> None:
    if number >= len(works):
        return
    whole = works[number]
    part = replace(
        whole,
        requests=int(whole.requests * share),
        prompt_tokens=int(whole.prompt_tokens * share),
        output_tokens=int(whole.output_tokens * share),
        units={name: int(units * share) for name, units in whole.units.items()},
    )
    split = rent_parts(rent, used, [*works[:number], part, whole.without([part]), *works[number + 1 :]])
    together = rent_parts(rent, used, works)
    assert split[number] + split[number + 1] == together[number]
    assert split[:number] + split[number + 2 :] == together[:number] + together[number + 1 :]


def test_a_token_counts_as_the_instances_that_compute_it_cost() -> None:
    reads, writes = text("reads", 900, 10), text("writes", 100, 90)
    rent = Rent(Fraction(50), prompts_usd=Fraction(10), answers_usd=Fraction(30))
    # A quarter of what is known by kind is for prompts, 90 % of which are of one; of answers it has 10 %.
    part = Fraction(1, 4) * Fraction(9, 10) + Fraction(3, 4) * Fraction(1, 10)
    assert rent_parts(rent, 0.5, [reads, writes]) == (25 * part, 25 * (1 - part))


@pytest.mark.parametrize("rent", [Rent(Fraction(10)), Rent(Fraction(10), prompts_usd=Fraction(10))])
def test_tokens_count_the_same_where_no_instances_are_for_each_kind(rent: Rent) -> None:
    assert rent_parts(rent, None, [text("a", 300, 0), text("b", 0, 100)]) == (Fraction(15, 2), Fraction(5, 2))


def test_classes_of_an_app_count_the_same_as_a_whole() -> None:
    sees, draws = made("sees", encode=100, draw=1), made("draws", draw=3)
    assert rent_parts(Rent(Fraction(8)), None, [sees, draws]) == (Fraction(5), Fraction(3))


def test_without_tokens_or_units_requests_count() -> None:
    silent = [text(key, 0, 0, requests) for key, requests in (("a", 3), ("b", 1))]
    assert rent_parts(Rent(Fraction(8)), None, silent) == (Fraction(6), Fraction(2))
