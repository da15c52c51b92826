import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.pools.media_spread import spread
from policies.pools.pending_work import PendingWork

RATES = {"a": 100.0, "b": 200.0, "c": 150.0}
UNITS = st.integers(1, 5000).map(float)
DONE = st.tuples(st.sampled_from(sorted(RATES)), st.floats(0, 1))


class Member:
    """What really waits at a member, and how much of each gateway's it has received."""

    def __init__(self, gateways: int) -> None:
        self.pending = 0.0
        self.received = [0] * gateways

    def take(self, gateway: int, units: float) -> None:
        self.pending += units
        self.received[gateway] += 1


@given(st.lists(st.one_of(UNITS, DONE), max_size=60))
def test_one_gateway_chooses_the_true_least(steps: list[float | tuple[str, float]]) -> None:
    pending = PendingWork(RATES)
    members = {name: Member(1) for name in RATES}
    for step in steps:
        if isinstance(step, tuple):  # a member computes some of what it has, and says so
            name, part = step
            members[name].pending *= 1 - part
            pending.report(name, members[name].pending, members[name].received[0])
            continue
        chosen = pending.least()
        assert chosen is not None
        least = min(members[name].pending / RATES[name] for name in RATES)
        assert members[chosen].pending / RATES[chosen] <= least + 1e-6
        pending.send(chosen, step)
        members[chosen].take(0, step)


@given(st.lists(st.tuples(st.integers(0, 2), UNITS, st.booleans()), max_size=60))
def test_several_gateways_are_off_by_what_others_sent_since_a_report_and_no_more(
    steps: list[tuple[int, float, bool]],
) -> None:
    gateways = [PendingWork(RATES) for _ in range(3)]
    members = {name: Member(3) for name in RATES}
    unknown = [dict.fromkeys(RATES, 0.0) for _ in gateways]
    for number, units, reports in steps:
        chosen = gateways[number].least()
        assert chosen is not None
        least = min(members[name].pending / RATES[name] for name in RATES)
        off = unknown[number][chosen] / RATES[chosen]
        assert members[chosen].pending / RATES[chosen] <= least + off + 1e-6
        gateways[number].send(chosen, units)
        members[chosen].take(number, units)
        for other in range(3):
            if other != number:
                unknown[other][chosen] += units
        if reports:
            for other, gateway in enumerate(gateways):
                gateway.report(chosen, members[chosen].pending, members[chosen].received[other])
                unknown[other][chosen] = 0.0


@given(st.lists(st.tuples(st.integers(0, 2), UNITS), max_size=60))
def test_three_gateways_are_within_a_request_of_the_least_when_members_report_each(
    steps: list[tuple[int, float]],
) -> None:
    """A report goes out with each request that a member receives, and one may still be on its way."""
    gateways = [PendingWork(RATES) for _ in range(3)]
    members = {name: Member(3) for name in RATES}
    on_its_way: tuple[str, float, list[int]] | None = None
    last = 0.0
    for number, units in steps:
        chosen = gateways[number].least()
        assert chosen is not None
        least = min(members[name].pending / RATES[name] for name in RATES)
        assert members[chosen].pending / RATES[chosen] <= least + last / RATES[chosen] + 1e-6
        gateways[number].send(chosen, units)
        members[chosen].take(number, units)
        if on_its_way is not None:
            name, pending, received = on_its_way
            for gateway, own in zip(gateways, received, strict=True):
                gateway.report(name, pending, own)
        on_its_way = chosen, members[chosen].pending, list(members[chosen].received)
        last = units


@given(st.lists(UNITS, min_size=1, max_size=40))
def test_parts_are_spread_so_that_no_encoder_has_more_than_a_part_above_another(parts: list[float]) -> None:
    pending = PendingWork(dict.fromkeys("abcd", 100.0))
    chosen = spread(parts, pending)
    have = {name: sum(u for u, c in zip(parts, chosen, strict=True) if c == name) for name in "abcd"}
    assert max(have.values()) - min(have.values()) <= max(parts) + 1e-6
    assert {name: pending.pending_s(name) * 100 for name in have} == pytest.approx(have)


def test_members_that_leave_are_not_chosen_and_what_stays_counts_on() -> None:
    pending = PendingWork({"a": 1.0, "b": 1.0})
    pending.send("a", 5.0)
    pending.update({"a": 1.0, "c": 0.1})
    assert pending.least() == "c"
    pending.send("c", 1.0)
    assert pending.least() == "a"
    assert pending.least({"a", "c"}) is None
    pending.report("b", 3.0, 1)  # a late word of one that is gone
