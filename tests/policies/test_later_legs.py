"""Instances for later legs: shares of the plan's flows, and the least load in a zone."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from policies.later_legs import Candidate, Flow, Route, Server, choose_legs, most_in_kv
from policies.rows import Rows, rows_of, table_of


class ServedLeg:
    server_at: int
    servers: int


class Instance:
    held: int
    room: int
    kv_most: float


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.lists(st.booleans(), max_size=60),
)
def test_zones_get_their_planned_shares_whatever_is_refused_between(rates: list[int], full: list[bool]) -> None:
    """One server a zone. At some times it is full everywhere: that moves no quota."""
    zones = len(rates)
    instances: Rows[Any] = rows_of(Instance, zones + 1, room=1, kv_most=np.inf)
    table: tuple[Any, ...] = (
        table_of(Route, [(0, 2, 0, zones)]),
        table_of(ServedLeg, [(0, 0), (0, zones)]),
        table_of(Server, [(n + 1, n, 1.0) for n in range(zones)]),
        table_of(Flow, [(float(rate), 0.0) for rate in rates]),
        np.array([(0, n) for n in range(zones)]),
        instances,
        table_of(Candidate, [(0, 0, 0)])[0],
    )
    chosen, got = np.zeros(2, np.int64), np.zeros(zones + 1)
    for is_full in [*full, *(False for _ in range(sum(rates)))]:
        instances.room = int(not is_full)  # type: ignore[attr-defined]
        assert choose_legs(*table, chosen) is not is_full
        got[chosen[1]] += not is_full
        total = got.sum()
        assert all(abs(got[n + 1] - total * rates[n] / sum(rates)) < zones for n in range(zones))


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 3), st.floats(0, 20) | st.just(np.inf), st.integers(1, 5)),
        min_size=1,
        max_size=8,
    )
)
def test_who_has_the_least_for_its_capacity_takes_it_of_those_with_room_and_before_others_in_the_kv_cache_too(
    servers: list[tuple[int, int, float, int]],
) -> None:
    table: tuple[Any, ...] = (
        table_of(Route, [(0, 2, 0, 0)]),
        table_of(ServedLeg, [(0, 0), (0, len(servers))]),
        table_of(Server, [(n, 0, float(weight)) for n, (*_, weight) in enumerate(servers)]),
        rows_of(Flow, 0),
        np.zeros((0, 2), np.int64),
        table_of(Instance, [(held, room, kv_most) for held, room, kv_most, _ in servers]),
        table_of(Candidate, [(0, 0, 0)])[0],
    )
    chosen = np.zeros(2, np.int64)
    able = [each for each in servers if each[1]]
    assert choose_legs(*table, chosen) is bool(able)
    if able:
        fitting = [each for each in able if each[0] + 1 <= each[2]] or able
        assert servers[chosen[1]] in fitting
        held, _, _, weight = servers[chosen[1]]
        assert (held + 1) / weight == min((held + 1) / weight for held, *_, weight in fitting)


def test_a_kv_cache_has_room_for_as_many_as_large_as_what_it_has() -> None:
    assert most_in_kv(4, 100, 60) == 10
    assert most_in_kv(3, 100, 0) == 3
    assert most_in_kv(0, 100, 100) == np.inf
    assert most_in_kv(2, 100, 140) == np.inf  # said by nobody who counts right
