"""Throughput of a shared unit: equation 3 of MuxServe as printed, and with jobs that slow each other down."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.models.catalogue import load_models
from templates_lib.units.contention import bandwidth_left, slowdown_of, slower
from templates_lib.units.estimator import UnitEstimate, contended, printed
from templates_lib.units.job_times import Lengths, MemberJobs
from templates_lib.units.member import JobTimes, UnitMember
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

BATCHES = np.arange(1.0, 65.0)


def member(
    rate: float,
    *,
    name: str = "m",
    prefill: tuple[float, float] = (0.01, 0.02),
    decode: tuple[float, float] = (0.02, 0.0005),
    output: float = 100,
    kv: float = 1.0,
    share: float = 0.5,
    reads: tuple[float, float] = (0.5, 0.1),
) -> UnitMember:
    """A member whose jobs take a + b · batch seconds; `reads` of decode and prefill jobs."""
    jobs = JobTimes(
        prefill[0] + prefill[1] * BATCHES,
        decode[0] + decode[1] * BATCHES,
        np.full_like(BATCHES, reads[0]),
        np.full_like(BATCHES, reads[1]),
    )
    return UnitMember(name, rate, output, kv, share, jobs)


members = st.builds(
    member,
    st.floats(0.05, 20),
    prefill=st.tuples(st.floats(0.001, 0.1), st.floats(0.001, 0.1)),
    decode=st.tuples(st.floats(0.005, 0.1), st.floats(0, 0.01)),
    output=st.floats(1, 500),
    kv=st.floats(0.1, 10),
    share=st.floats(0.1, 1),
    reads=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
units = st.lists(members, min_size=1, max_size=4)


def estimated(unit: list[UnitMember], kv: float = 1e3) -> UnitEstimate:
    found = printed(unit, kv)
    assert found is not None
    return found


def test_a_member_alone_does_what_equation_3_says() -> None:
    found = estimated([member(1.0)]).members[0]
    cycles = 0.01 + 0.02 * BATCHES + (0.02 + 0.0005 * BATCHES) * 100
    least = int(np.argmax(BATCHES / cycles >= 1.0)) + 1
    assert found.batch == least
    assert found.requests_per_s == 1.0
    assert found.cycle_s == pytest.approx(cycles[least - 1])
    assert found.decode_s == pytest.approx(0.02 + 0.0005 * least)


@settings(max_examples=60, deadline=None)
@given(units, st.floats(50, 500))
def test_batches_are_the_least_that_carry_the_rates_together(unit: list[UnitMember], kv: float) -> None:
    found = estimated(unit, kv)
    batches = [each.batch for each in found.members]
    turn = sum(float(m.times.prefill_s[b - 1]) for m, b in zip(unit, batches, strict=True))
    for each, m, b in zip(found.members, unit, batches, strict=True):
        cycle = turn + float(m.times.decode_s[b - 1]) * m.output_tokens
        assert each.requests_per_s == pytest.approx(min(b / cycle, m.requests_per_s))
        if b > 1:  # one request less, even beside the others' present prefills, carries less than is asked
            fewer = turn - float(m.times.prefill_s[b - 1] - m.times.prefill_s[b - 2])
            assert (b - 1) / (fewer + float(m.times.decode_s[b - 2]) * m.output_tokens) < m.requests_per_s * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(units, st.floats(20, 500))
def test_batches_fit_the_cache(unit: list[UnitMember], kv: float) -> None:
    found = printed(unit, kv)
    if found is None:
        assert sum(m.kv_bytes for m in unit) > kv
        return
    assert sum(each.batch * m.kv_bytes for each, m in zip(found.members, unit, strict=True)) <= kv * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(units)
def test_jobs_beside_each_other_never_do_more_than_printed(unit: list[UnitMember]) -> None:
    plain, slowed = estimated(unit), contended(unit, 1e3)
    assert slowed is not None
    for a, b in zip(plain.members, slowed.members, strict=True):
        assert b.requests_per_s <= a.requests_per_s * (1 + 1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_all_jobs_together_take_no_more_than_the_bandwidth(reads: list[float]) -> None:
    left = bandwidth_left(reads)
    assert 0 < left <= 1
    assert sum(each / slower(each, left) for each in reads) <= 1 + 1e-9
    if sum(reads) <= 1:
        assert left == 1


def test_two_members_that_only_read_take_twice_as_long_each() -> None:
    both = [member(1.0, reads=(1.0, 0.0)), member(1.0, reads=(1.0, 0.0))]
    assert [each.decode for each in slowdown_of(both, [1, 1])] == pytest.approx([2.0, 2.0])


def test_shares_above_all_of_the_gpus_are_taken_in_turns() -> None:
    three = [member(1.0, share=0.8, reads=(0.0, 0.0))] * 3
    assert [each.decode for each in slowdown_of(three, [1, 1, 1])] == pytest.approx([2.0, 2.0, 2.0])
    two = [member(1.0, share=0.6, reads=(0.0, 0.0))] * 2
    assert [each.decode for each in slowdown_of(two, [1, 1])] == [1.0, 1.0]


def test_a_cache_that_holds_no_request_of_each_member_serves_none() -> None:
    assert printed([member(1.0, kv=2.0), member(1.0, kv=3.0)], 4.9) is None
    assert contended([member(1.0, kv=2.0), member(1.0, kv=3.0)], 4.9) is None


def test_times_of_jobs_come_from_the_cost_model() -> None:
    node = NodeConfig("A100-80:1", "A100-80", 1, 2400.0, 0.0, 256.0)
    jobs = MemberJobs(estimated_cost_model(load_gpus()), load_models()["phi-4-14b"], node, Lengths(160, 340))
    whole, third = jobs.times(1.0, 1.0, 64), jobs.times(0.3, 0.3, 64)
    assert whole.largest == 64
    assert (np.diff(whole.prefill_s) > 0).all()
    assert third.prefill_s[-1] > 2 * whole.prefill_s[-1]
    assert third.decode_s[0] < 1.5 * whole.decode_s[0]
    assert whole.decode_reads[0] > 0.5 > whole.prefill_reads[-1]  # decoding one request reads, long prompts compute


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("inf")])
def test_members_of_no_rate_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        member(wrong)
