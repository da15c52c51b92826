"""Pace of a member, from prompts that it computed alone."""

from hypothesis import given
from hypothesis import strategies as st

from policies.pace import LEAST, MOST, Pace


@given(st.lists(st.floats(1e-3, 1e3), max_size=30), st.floats(0.26, 3.9))
def test_it_stays_in_its_bounds_and_comes_near_to_what_is_observed(before: list[float], ratio: float) -> None:
    pace = Pace()
    for seen in [*before, *(ratio for _ in range(60))]:
        pace.begin("p", 1.0, 0.0, is_alone=True)
        pace.end("p", seen)
        assert LEAST <= pace.ratio <= MOST
    assert abs(pace.ratio - ratio) < 1e-4


def test_only_a_prompt_alone_says_something() -> None:
    pace = Pace()
    pace.begin("first", 1.0, 0.0, is_alone=True)
    pace.begin("second", 1.0, 0.5, is_alone=False)
    pace.end("first", 3.0)
    pace.end("second", 3.0)
    pace.begin("short", 1e-4, 5.0, is_alone=True)
    pace.end("short", 6.0)
    assert pace.ratio == 1.0
