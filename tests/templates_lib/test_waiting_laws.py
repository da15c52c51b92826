"""The laws of waiting against what they speak of: queues, answers and populations that are drawn and counted."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates_lib.throughput.waiting.law import SPREADS, gap_law, together_law
from templates_lib.throughput.waiting.population import ALIKE, Population, context_sizes
from templates_lib.throughput.waiting.queue import MOST_LOAD, Customers, Floats, greatest_load
from tests.templates_lib import throughput_worlds as worlds

ARRIVALS = 200_000


def customers(ends: Floats, *, parts: int = 1) -> Customers:
    """Of equally likely kinds, each anything between two of `ends` (q + 1,) long, in a row of `parts` equal servers."""
    busy = ((ends[1:] + ends[:-1]) / 2 / parts)[None, :]
    weights = np.full(len(ends) - 1, 1 / (len(ends) - 1))
    return Customers(weights, ends[None, :], weights, busy, busy * parts)


def on_time(ends: Floats, load: float, budget_s: float, parts: int, seed: int = 7) -> float:
    """Share of customers in time, of many that are drawn: each part of the row takes them in order."""
    draw = np.random.default_rng(seed)
    own = np.interp(draw.random(ARRIVALS), np.linspace(0, 1, len(ends)), ends)
    arrival = np.cumsum(draw.exponential(own.mean() / parts / load, ARRIVALS))
    free, late = [0.0] * parts, 0
    for at, whole in zip(arrival.tolist(), own.tolist(), strict=True):
        done = at
        for part in range(parts):
            done = free[part] = max(done, free[part]) + whole / parts
        late += done - at > budget_s
    return 1 - late / ARRIVALS


ENDS = {
    "alike": np.full(9, 1.0),
    "mixed": np.array([0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.5, 4.0]),
}


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("budget", [4.5, 8.0, 15.0])
@pytest.mark.parametrize("share", [0.9, 0.99])
def test_at_its_load_a_queue_keeps_the_share_and_no_more_than_it(kind: str, budget: float, share: float) -> None:
    load = float(greatest_load(customers(ENDS[kind]), np.array([budget]), share)[0])
    assert 0 < load <= MOST_LOAD
    found = on_time(ENDS[kind], load, budget, 1)
    assert found == pytest.approx(share, abs=0.15 * (1 - share) + 0.002)


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("budget", [4.5, 8.0])
def test_servers_in_a_row_keep_the_share(kind: str, parts: int, budget: float) -> None:
    """Whoever is behind a long one is held up by it at every part: about so where the longest alone take all but the
    whole budget, and at the load that a plan gives it (`utilisation_cap`), surely."""
    load = float(greatest_load(customers(ENDS[kind], parts=parts), np.array([budget]), 0.99)[0])
    assert on_time(ENDS[kind], load, budget, parts) >= 0.98
    assert on_time(ENDS[kind], 0.85 * load, budget, parts) >= 0.988


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.05, 3.0), min_size=3, max_size=9),
    st.floats(0.2, 20.0),
    st.floats(1.0, 3.0),
    st.floats(0.5, 0.999),
    st.integers(1, 8),
)
def test_more_time_never_lowers_the_load(
    ends: list[float], budget: float, more: float, share: float, parts: int
) -> None:
    made = customers(np.sort(ends), parts=parts)
    less, enough = (float(greatest_load(made, np.array([b]), share)[0]) for b in (budget, budget * more))
    assert less <= enough + 0.03, "but for what the grid cannot tell"
    assert float(greatest_load(made, np.array([budget]), share + (1 - share) / 2)[0]) <= less


def test_nobody_is_in_time_whose_own_time_is_too_long() -> None:
    assert greatest_load(customers(ENDS["mixed"]), np.array([2.0]), 0.99)[0] == 0


@pytest.mark.parametrize("groups", [1, 2])
def test_answers_keep_the_objective_with_the_steps_and_the_hand_off_they_were_given(groups: int) -> None:
    draw = np.random.default_rng(3)
    shape = worlds.shape(draw.integers(50, 4000, 2000).tolist(), draw.geometric(0.02, 2000).tolist())
    spec, tpot_s = worlds.model(4, windows=(128, 0, 128, 0)), 0.05
    law = gap_law(spec, shape, tpot_s, 0.99, groups)
    prompt, gaps = shape.prompt_tokens.astype(float), shape.output_tokens - 1.0
    handed = (np.minimum(prompt, 128) + prompt) / 2
    hand_off_s = law.hand_off_s * handed / handed.mean()
    for spread in SPREADS[:9:2]:
        step_s = tpot_s * float(law.step_share(np.array(spread)))
        answers = draw.integers(len(prompt), size=400_000)
        step = step_s * (1 + spread * draw.standard_normal(len(answers)))
        first = hand_off_s[answers] + draw.random(len(answers)) * step / groups
        late = (gaps[answers] > 0) & (gaps[answers] * step + first > gaps[answers] * tpot_s)
        assert late.mean() == pytest.approx(0.01, abs=0.002)


def test_where_nothing_is_handed_over_steps_have_the_whole_objective() -> None:
    law = together_law(0.99)
    assert law.step_share(np.array(0.0)) == 1
    assert law.step_share(np.array(0.2)) == pytest.approx(1 / (1 + 0.2 * NormalDist().inv_cdf(0.99)), rel=0.02)
    one_token = worlds.shape([100, 2000], [1, 1])
    assert gap_law(worlds.model(), one_token, 0.05, 0.99, 1).hand_off_s == math.inf


@pytest.mark.parametrize("room", [12.0, 60.0, 400.0])
@pytest.mark.parametrize("share", [0.9, 0.99])
def test_requests_that_come_find_room(room: float, share: float) -> None:
    draw = np.random.default_rng(5)
    mean = float(Population(share).mean_within(np.array(room), ALIKE))
    assert ((draw.poisson(mean, 300_000) + 1) <= room).mean() >= share - 0.1 * (1 - share)
    assert ((draw.poisson(1.25 * mean + 1, 300_000) + 1) <= room).mean() < share, "and it is not given away"
    lengths = draw.integers(1, 4000, 3000)
    sizes = context_sizes(worlds.shape(lengths.tolist(), [1] * 3000))
    mean = float(Population(share).mean_within(np.array(room), sizes))
    there = [lengths[draw.integers(3000, size=n + 1)].sum() for n in draw.poisson(mean, 20_000)]
    assert (np.array(there) <= room * lengths.mean()).mean() >= share - 0.25 * (1 - share)


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 60)), min_size=1, max_size=6))
def test_sizes_are_moments_over_all_steps_of_all_answers(pairs: list[tuple[int, int]]) -> None:
    shape = worlds.shape([p for p, _ in pairs], [o for _, o in pairs])
    held = np.array([p + i for p, o in pairs for i in range(o)], float)
    found = context_sizes(shape)
    assert found.square == pytest.approx((held**2).mean() / held.mean() ** 2)
    assert found.cube == pytest.approx((held**3).mean() / held.mean() ** 3)
