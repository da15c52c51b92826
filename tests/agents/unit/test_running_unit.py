"""Turns and quotas of a unit whose members are processes."""

import pytest

from agents.unit.core import UnitMemberShares
from agents.unit.running_unit import LONGEST_JOB_S, PATIENCE_S, RunningUnit
from policies.shared_units.block_quotas import BlockDemand
from policies.shared_units.dispatch import JobPhase

POOL = 100
P, D = JobPhase.PREFILL, JobPhase.DECODE


def unit(*shares: float, rate: float = 1.0, least: int = 10) -> RunningUnit:
    return RunningUnit([UnitMemberShares(each, each, BlockDemand(rate, 5.0, least)) for each in shares], POOL, 0.0)


def test_jobs_on_all_processors_are_done_one_after_the_other_prompts_first_and_each_member_in_turn() -> None:
    made = unit(1.0, 1.0, 1.0)
    made.ask(0, D, 0.0)
    assert list(made.begin(0.0)) == [0]
    made.ask(1, D, 1.0)
    made.ask(2, P, 2.0)
    assert list(made.begin(2.0)) == []
    running, order = 0, []
    for next_phase in (P, P, D, D, D):
        made.end(running, 3.0)
        made.ask(running, next_phase, 3.0)
        (running,) = made.begin(3.0)
        order.append(running)
    assert order == [0, 2, 0, 1, 2], "prompts of members in turn, then decode jobs in turn"


def test_jobs_whose_shares_fit_are_done_side_by_side() -> None:
    made = unit(0.5, 0.5, 0.5)
    for member in range(3):
        made.ask(member, D, 0.0)
    assert list(made.begin(0.0)) == [0, 1]
    made.end(0, 0.0)
    assert list(made.begin(0.0)) == [2]


def test_a_member_that_dies_or_hangs_in_its_turn_holds_nobody_up() -> None:
    made = unit(1.0, 1.0)
    made.ask(0, P, 0.0)
    assert list(made.begin(0.0)) == [0]
    made.ask(1, D, 0.0)
    made.drop(0)
    assert list(made.begin(0.0)) == [1]
    made.ask(0, P, 1.0)
    assert list(made.begin(PATIENCE_S)) == []
    assert list(made.begin(PATIENCE_S + 0.1)) == [0]
    with pytest.raises(ValueError, match="while it has one"):
        made.ask(1, D, PATIENCE_S + 0.2)
    made.end(1, PATIENCE_S + 1)  # it comes back
    made.ask(1, D, PATIENCE_S + 1)
    assert list(made.begin(PATIENCE_S + 1)) == []


def test_the_others_wait_longer_for_a_member_whose_jobs_take_longer_but_not_for_ever() -> None:
    made, slow_s = unit(1.0, 1.0), 2 * PATIENCE_S
    made.ask(0, P, 0.0)
    assert list(made.begin(0.0)) == [0]
    made.end(0, slow_s)
    made.ask(0, P, slow_s)
    assert list(made.begin(slow_s)) == [0]
    made.ask(1, D, slow_s)
    assert list(made.begin(3 * slow_s)) == [], "twice as long as ever"
    assert list(made.begin(5 * slow_s)) == [1]
    made.end(1, 5 * slow_s)
    made.end(0, 100 * slow_s)
    began_s = 100 * slow_s
    made.ask(0, P, began_s)
    assert list(made.begin(began_s)) == [0]
    made.ask(1, D, began_s)
    assert list(made.begin(began_s + LONGEST_JOB_S)) == []
    assert list(made.begin(began_s + LONGEST_JOB_S + 0.1)) == [1]


def test_an_engine_has_one_job_at_a_time() -> None:
    made = unit(1.0)
    made.ask(0, P, 0.0)
    with pytest.raises(ValueError, match="while it has one"):
        made.ask(0, D, 0.0)
    assert list(made.begin(0.0)) == [0]
    with pytest.raises(ValueError, match="while it has one"):
        made.ask(0, D, 0.0)


def test_quotas_go_to_the_member_whose_requests_wait_and_never_below_one_longest_request() -> None:
    made, counted = unit(1.0, 1.0), [50, 50]
    assert made.grants.quotas == (50, 50)
    for second in range(1, 31):
        list(made.begin(float(second)))
        counted = [made.renew(member, counted[member], wanted) for member, wanted in enumerate((40, 0))]
    assert counted[0] >= 75
    assert sum(counted) <= POOL
    for second in range(31, 300):
        list(made.begin(float(second)))
        counted = [made.renew(member, counted[member], wanted) for member, wanted in enumerate((40, 0))]
    assert counted == [made.most(0), 10]
    made.leave(0)
    for second in range(300, 400):
        list(made.begin(float(second)))
        counted[1] = made.renew(1, counted[1], 60)
    assert counted[1] > 50, "nobody counts on the blocks of a member that is away"


def test_a_pool_without_one_longest_request_of_each_is_refused() -> None:
    with pytest.raises(ValueError, match="longest request"):
        unit(1.0, 1.0, least=51)
