from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.pools.media_spread import behind_s, spread
from policies.pools.pending_work import PendingWork

RATES = {"a": 100.0, "b": 200.0, "c": 150.0}
UNITS = st.integers(1, 5000).map(float)
DONE = st.sampled_from(sorted(RATES))
SENDS = st.tuples(st.integers(0, 2), UNITS)


class Gateways:
    """Three gateways, what each has at the members, and what really waits there."""

    def __init__(self) -> None:
        self.known = [PendingWork(RATES) for _ in range(3)]
        self.units = {name: [0.0] * 3 for name in RATES}

    def waits_s(self, member: str) -> float:
        return sum(self.units[member]) / RATES[member]

    @property
    def least_s(self) -> float:
        return min(map(self.waits_s, RATES))

    def send(self, gateway: int, units: float) -> str:
        chosen = self.known[gateway].least()
        assert chosen is not None
        self.known[gateway].send(chosen, units)
        self.units[chosen][gateway] += units
        return chosen

    def report(self, member: str) -> list[float]:
        """What it has for other gateways than each."""
        return [sum(self.units[member]) - own for own in self.units[member]]

    def tell(self, member: str, others: list[float]) -> None:
        for gateway, units in zip(self.known, others, strict=True):
            gateway.told(member, units)


@given(st.lists(st.one_of(UNITS, DONE), max_size=60))
def test_one_gateway_chooses_the_true_least(steps: list[float | str]) -> None:
    pending, waiting = PendingWork(RATES), defaultdict[str, list[float]](list)
    for step in steps:
        if isinstance(step, str):  # a member answers the first of what it has
            if waiting[step]:
                pending.done(step, waiting[step].pop(0))
            continue
        chosen = pending.least()
        assert chosen is not None
        least = min(sum(waiting[name]) / rate for name, rate in RATES.items())
        assert sum(waiting[chosen]) / RATES[chosen] <= least + 1e-6
        pending.send(chosen, step)
        waiting[chosen].append(step)


@given(st.lists(st.tuples(SENDS, st.booleans()), max_size=60))
def test_several_gateways_are_off_by_what_others_sent_since_a_report_and_no_more(
    steps: list[tuple[tuple[int, float], bool]],
) -> None:
    gateways, unknown = Gateways(), [Counter[str]() for _ in range(3)]
    for (number, units), reports in steps:
        before, least = {name: gateways.waits_s(name) for name in RATES}, gateways.least_s
        chosen = gateways.send(number, units)
        assert before[chosen] <= least + unknown[number][chosen] / RATES[chosen] + 1e-6
        for other in range(3):
            unknown[other][chosen] += int(units) if other != number else 0
        if reports:
            gateways.tell(chosen, gateways.report(chosen))
            for each in unknown:
                each[chosen] = 0


@given(st.lists(SENDS, max_size=60))
def test_three_gateways_are_within_a_request_of_the_least_when_members_report_each(
    steps: list[tuple[int, float]],
) -> None:
    """A report goes out with each request that a member receives, and one may still be on its way."""
    gateways, last = Gateways(), 0.0
    on_its_way: tuple[str, list[float]] | None = None
    for number, units in steps:
        before, least = {name: gateways.waits_s(name) for name in RATES}, gateways.least_s
        chosen = gateways.send(number, units)
        assert before[chosen] <= least + last / RATES[chosen] + 1e-6
        if on_its_way is not None:
            gateways.tell(*on_its_way)
        on_its_way, last = (chosen, gateways.report(chosen)), units


@given(st.lists(UNITS, min_size=1, max_size=40))
def test_parts_are_spread_so_that_no_encoder_has_more_than_a_part_above_another(parts: list[float]) -> None:
    pending = PendingWork(dict.fromkeys("abcd", 100.0))
    chosen = spread(parts, pending)
    have = {name: sum(u for u, c in zip(parts, chosen, strict=True) if c == name) for name in "abcd"}
    assert max(have.values()) - min(have.values()) <= max(parts) + 1e-6
    assert {name: pending.pending_s(name) * 100 for name in have} == pytest.approx(have)


def test_parts_are_spread_among_those_that_can_be_used() -> None:
    pending = PendingWork(dict.fromkeys("abcd", 100.0))
    assert sorted(spread([5.0, 1.0, 4.0], pending, {"b", "d"})) == ["b", "d", "d"]
    with pytest.raises(LookupError):
        spread([1.0], pending, ())


def test_a_part_is_behind_those_of_its_request_that_go_to_the_same_encoder() -> None:
    assert behind_s([1.0, 2.0, 4.0, 8.0], ["a", "b", "a", "a"]) == [0.0, 0.0, 1.0, 5.0]


def test_members_that_leave_are_not_chosen_and_what_stays_counts_on() -> None:
    pending = PendingWork({"a": 1.0, "b": 1.0})
    pending.send("a", 5.0)
    pending.update({"a": 1.0, "c": 0.1})
    assert pending.least() == "c"
    pending.send("c", 1.0)
    assert pending.least() == "a"
    assert pending.least({"c"}) == "c"
    assert pending.least({"b"}) is None
    pending.told("b", 3.0)  # late words of one that is gone
    pending.done("b", 3.0)
    assert "b" not in pending


def test_work_that_is_done_twice_or_was_lost_with_its_member_leaves_nothing_behind() -> None:
    pending = PendingWork({"a": 2.0})
    pending.send("a", 5.0)
    pending.done("a", 5.0)
    pending.done("a", 5.0)
    assert pending.pending_s("a") == 0
    pending.told("a", 4.0)
    assert pending.pending_s("a") == pytest.approx(2.0)
