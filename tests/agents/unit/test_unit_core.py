"""The scheduler of a shared unit under load: what it begins side by side, who gets blocks, and that all is served."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.unit.core import UnitCore, UnitMemberShares
from bench.units.unit_run import MemberLoad, MemberState, Request, UnitRun, poisson_requests, run_unit
from policies.shared_units.block_quotas import PERIOD_S, BlockDemand
from policies.shared_units.dispatch import UNIT_DISPATCHES, Choice, JobPhase, MemberWork, UnderWay, UnitDispatch


@dataclass(frozen=True)
class LinearTimes:
    """Steps of a fixed time and as much again for each token or request."""

    prefill_token_s: float = 1e-4
    decode_step_s: float = 0.02
    read: float = 0.3

    def prefill_s(self, requests: int, tokens: float) -> float:
        return 0.01 + self.prefill_token_s * requests * tokens

    def decode_s(self, requests: int, context: float) -> float:
        return self.decode_step_s + 1e-4 * requests + 1e-7 * requests * context

    def reads(self, phase: JobPhase, requests: int, tokens: float) -> float:  # noqa: ARG002
        return 0.05 if phase is JobPhase.PREFILL else self.read


@dataclass
class Watched:
    """A policy whose every question and answer is checked."""

    policy: UnitDispatch

    @property
    def has_quotas(self) -> bool:
        return self.policy.has_quotas

    def next_job(self, members: Sequence[MemberWork], under_way: UnderWay) -> Choice | None:
        assert under_way.prefills <= 1
        assert under_way.jobs <= 1 or under_way.shares <= 1.2 + 1e-6
        choice = self.policy.next_job(members, under_way)
        if choice is not None:
            place, phase = choice
            assert members[place].can(phase)
        return choice


def load(**changed: object) -> MemberLoad:
    usual = MemberLoad("m", 2.0, 60.0, 80.0, 400, 1.0, 0.8, 0.5, LinearTimes())
    return replace(usual, **changed)  # type: ignore[arg-type]


loads = st.lists(
    st.builds(
        load,
        requests_per_s=st.floats(0.2, 6),
        prompt_tokens=st.floats(2, 150),
        output_tokens=st.floats(2, 150),
        blocks_per_token=st.floats(0.3, 8),
        prefill_share=st.floats(0.1, 1),
        decode_share=st.floats(0.1, 1),
        times=st.builds(LinearTimes, st.floats(1e-5, 1e-3), st.floats(1e-3, 0.05), st.floats(0, 1)),
    ),
    min_size=1,
    max_size=4,
)


def requests_of(members: Sequence[MemberLoad], duration_s: float, seed: int) -> list[list[Request]]:
    return [poisson_requests(each, duration_s, np.random.default_rng([seed, i])) for i, each in enumerate(members)]


def least_pool(members: Sequence[MemberLoad]) -> int:
    return sum(each.blocks(each.longest + 1) for each in members)


@settings(max_examples=20, deadline=None)
@given(loads, st.sampled_from(sorted(UNIT_DISPATCHES)), st.floats(1, 3), st.integers(0, 99))
def test_whatever_the_policy_every_request_is_served_within_shares_and_blocks(
    members: list[MemberLoad], name: str, pool: float, seed: int
) -> None:
    run = run_unit(
        members, requests_of(members, 5.0, seed), int(pool * least_pool(members)),
        Watched(UNIT_DISPATCHES[name]()), until_s=1e5,
    )  # fmt: skip
    for each in run.requests:
        for request in each:
            assert request.produced == request.output
            assert request.arrived_s < request.finished_s <= 1e5
            assert request.blocks == 0


def test_a_flood_of_one_member_does_not_take_the_others_blocks_from_it() -> None:
    calm, flood = load(requests_per_s=1.0, blocks_per_token=4.0), load(name="flood", requests_per_s=80.0)
    members, pool = [calm, flood], 4000

    def served(name: str) -> float:
        run = run_unit(members, requests_of(members, 40.0, 1), pool, UNIT_DISPATCHES[name](), 40.0)
        return run.requests_per_s[0]

    assert served("adbs-v1") > 0.8
    assert served("adbs-v1") > 1.5 * served("round-robin-v1")


def test_quotas_follow_a_load_that_moves_to_another_member_within_30_s(monkeypatch: pytest.MonkeyPatch) -> None:
    members, moves_s = [load(requests_per_s=6.0), load(name="later", requests_per_s=0.3)], 40.0

    def run(until_s: float) -> UnitRun:
        busy = replace(members[1], requests_per_s=6.0)
        before = poisson_requests(members[0], moves_s, np.random.default_rng(1))
        after = poisson_requests(busy, 60.0, np.random.default_rng(2), moves_s)
        return run_unit(members, [before, after], 2000, UNIT_DISPATCHES["adbs-v1"](), until_s)

    first, then, end = run(moves_s).quotas, run(moves_s + 30.0).quotas, run(100.0)
    assert first[0] > 3 * first[1]
    assert then[1] > 1.5 * first[1]
    assert sum(first) == sum(then) == 2000
    monkeypatch.setattr("agents.unit.core.PERIOD_S", 1e9)  # quotas stay as they began
    assert end.requests_per_s[1] > 1.2 * run(100.0).requests_per_s[1]


def test_quotas_are_looked_at_once_a_period() -> None:
    members = [load(), load(name="other", requests_per_s=0.1)]
    states = [MemberState(i, each) for i, each in enumerate(members)]
    shares = [UnitMemberShares(0.8, 0.5, BlockDemand(each.requests_per_s, 140.0, 401)) for each in members]
    core = UnitCore(shares, states, 2000, UNIT_DISPATCHES["adbs-v1"](), now_s=5.0)
    before = core.grants.quotas
    core.grants.take(0, before[0])
    states[0].waiting.append(Request(0.0, 100, 100))
    core.adapt(5.0 + PERIOD_S - 0.1)
    assert core.grants.quotas == before
    core.adapt(5.0 + PERIOD_S)
    assert core.adapts_s == 5.0 + 2 * PERIOD_S
    states[0].waiting.append(Request(0.0, 100, 100))
    assert UnitCore(shares, states, 2000, UNIT_DISPATCHES["fcfs-v1"](), 0.0).adapts_s == float("inf")


def test_a_pool_without_one_longest_request_of_each_member_is_refused() -> None:
    members = [load(), load(name="other")]
    with pytest.raises(ValueError, match="longest request"):
        run_unit(members, [[], []], least_pool(members) - 1, UNIT_DISPATCHES["adbs-v1"](), 1.0)


def test_only_jobs_under_way_can_end() -> None:
    state, shares = MemberState(0, load()), UnitMemberShares(0.8, 0.5, BlockDemand(1, 1, 1))
    core = UnitCore([shares], [state], 10, UNIT_DISPATCHES["adbs-v1"](), 0.0)
    assert core.next_job() is None
    state.waiting.append(Request(0.0, 5, 5))
    job = core.next_job()
    assert job is not None
    assert core.next_job() is None
    core.end(job)
    with pytest.raises(ValueError, match="not in list"):
        core.end(job)
