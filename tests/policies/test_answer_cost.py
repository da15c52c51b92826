"""What answers cost by who takes the prompt, and that dispatch by slack goes by it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.text_tables import DECODE, PREFILL, WHOLE, member, text_model
from policies import slack
from policies.answer_cost import answer_usd
from policies.routing_table import PromptTimes, RoutedInstance, RoutedModel
from policies.rows import Rows, table_of

MEAN = 100.0
"""Tokens of a prompt, and of an answer."""
PARTS = st.lists(st.tuples(st.floats(1e-5, 1e-3), st.floats(0.1, 20.0), st.floats(0.1, 0.9)), min_size=1, max_size=4)
"""Seconds a token of a prompt, US dollars an hour, and share of a mean request that is its prompt."""


def routed(wholes: list[tuple[float, float, float]], firsts: list[tuple[float, float, float]]) -> RoutedModel:
    """With two decode instances of 500 and 1500 tokens/s for 3 and 5 $/h."""
    members = [timed(f"w{n}", WHOLE, 1 / MEAN, *each) for n, each in enumerate(wholes)]
    members += [timed(f"p{n}", PREFILL, 1.0, *each) for n, each in enumerate(firsts)]
    decode = [
        replace(member("m", f"d{n}", "z", DECODE, rate), usd_per_hour=usd)
        for n, (rate, usd) in enumerate([(500.0, 3.0), (1500.0, 5.0)])
    ]
    return text_model("m", [*members, *decode], per_request=MEAN)


def timed(name: str, leg: str, per_token: float, per_token_s: float, usd: float, share: float) -> RoutedInstance:
    """An instance whose prompts take `share` of what it is certified for. `per_token`: units for each token."""
    seconds = tuple((slack.PROMPT_POINTS * per_token_s).tolist())
    own = member("m", name, "z", leg, per_token * share / per_token_s)
    return replace(own, times=PromptTimes(seconds, seconds, 0), usd_per_hour=usd)


def rows(model: RoutedModel) -> tuple[list[str], Rows[slack.Member], tuple[Any, Any]]:
    """Members that take first legs, all of which have a place, and their times."""
    usd, times = answer_usd(model), dict[PromptTimes, int]()
    firsts = [(m, r) for r in model.routes for m in model.members if r.legs[0].work_class in m.units_per_s]
    table = table_of(
        slack.Member,
        [slack.member_row(m.times, times, m.usd_per_hour, np.inf, usd.get((m.id, r.id), 0.0)) for m, r in firsts],
    )
    for row in table:
        row.is_open = row.has_place = True
    return [m.id for m, _ in firsts], table, slack.table_of_times(times)


def chosen(model: RoutedModel, tokens: float, answer: float) -> str:
    names, table, times = rows(model)
    return names[slack.choose(table, 0, len(table), *times, tokens, answer, np.inf, 0.0, 0.0)]


@given(PARTS, PARTS)
def test_a_mean_request_costs_what_its_share_of_all_its_legs_costs(
    wholes: list[tuple[float, float, float]], firsts: list[tuple[float, float, float]]
) -> None:
    usd = answer_usd(model := routed(wholes, firsts))
    whole, split = (route.id for route in sorted(model.routes, key=lambda route: len(route.legs)))
    for name, route, parts in (("w", whole, wholes), ("p", split, firsts)):
        for number, (per_token_s, usd_per_hour, share) in enumerate(parts):
            prompt_usd = MEAN * per_token_s * usd_per_hour / 3600
            later_usd = 0.0 if route == whole else MEAN * (3 + 5) / 3600 / (500 + 1500)
            own_usd = MEAN * per_token_s / share * usd_per_hour / 3600
            assert prompt_usd + MEAN * usd[f"{name}{number}", route] == pytest.approx(own_usd + later_usd)


@given(PARTS, PARTS, st.floats(1, 4000), st.lists(st.floats(0, 5000), min_size=2, max_size=6))
def test_whoever_takes_a_request_is_the_cheapest_for_prompt_and_answer_and_longer_answers_go_to_cheaper_tokens(
    wholes: list[tuple[float, float, float]],
    firsts: list[tuple[float, float, float]],
    tokens: float,
    answers: list[float],
) -> None:
    model = routed(wholes, firsts)
    usd = {name: of for (name, _), of in answer_usd(model).items()}
    prompts = {f"w{n}": tokens * s * dear / 3600 for n, (s, dear, _) in enumerate(wholes)}
    prompts |= {f"p{n}": tokens * s * dear / 3600 for n, (s, dear, _) in enumerate(firsts)}
    before = np.inf
    for answer in sorted(answers):
        name = chosen(model, tokens, answer)
        least = min(of + answer * usd[each] for each, of in prompts.items())
        assert prompts[name] + answer * usd[name] == pytest.approx(least)
        assert usd[name] <= before * (1 + 1e-9)
        before = usd[name]


@given(PARTS, st.floats(1, 4000), st.floats(0, 5000), st.booleans())
def test_where_all_answers_are_made_alike_they_are_not_counted(
    parts: list[tuple[float, float, float]], tokens: float, answer: float, is_whole: bool
) -> None:
    model = routed(*((parts, []) if is_whole else ([], parts)))
    if is_whole:
        model = replace(model, members=model.members[: len(parts)])
    assert answer_usd(model) == {}
    assert chosen(model, tokens, answer) == chosen(model, tokens, 0.0)


def test_a_short_answer_goes_where_the_prompt_is_cheap_and_a_long_one_where_tokens_are() -> None:
    # A prompt costs a fifth, and a token of the answer twice as much as at the decode instances.
    model = routed([(1e-4, 1.0, 0.01)], [(1e-4, 5.0, 1.0)])
    assert [chosen(model, 1000.0, answer) for answer in (1.0, 4000.0)] == ["w0", "p0"]


def test_a_table_without_prices_or_times_goes_by_nothing_more_than_before() -> None:
    model = routed([(1e-4, 1.0, 0.1)], [(1e-4, 5.0, 1.0)])
    free = replace(model, members=tuple(replace(each, times=None, usd_per_hour=0.0) for each in model.members))
    assert set(answer_usd(free).values()) == {0.0}
