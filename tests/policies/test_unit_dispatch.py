"""Which job of a shared unit begins next, by each policy."""

from dataclasses import replace

from policies.shared_units.dispatch import (
    UNIT_DISPATCHES,
    AdaptiveBatches,
    Choice,
    FirstCome,
    JobPhase,
    MemberWork,
    RoundRobin,
    UnderWay,
    UnitDispatch,
)

PREFILL, DECODE = JobPhase.PREFILL, JobPhase.DECODE
IDLE = MemberWork(0.8, 0.4)
WAITS = replace(IDLE, prefill_since_s=1.0, waiting_since_s=1.0)
DECODES = replace(IDLE, decode_since_s=1.0)
BOTH = replace(WAITS, decode_since_s=1.0)
LACKS_BLOCKS = replace(IDLE, waiting_since_s=0.0)
NOTHING = UnderWay(0.0, 0, 0)


def begun(policy: UnitDispatch, members: list[MemberWork]) -> list[Choice]:
    """All jobs that begin at once, in order. None of them ends."""
    found: list[Choice] = []
    while True:
        shares = sum(members[place].share(phase) for place, phase in found)
        under_way = UnderWay(shares, sum(phase is PREFILL for _, phase in found), len(found))
        left = [
            replace(
                member,
                prefill_since_s=float("inf") if (place, PREFILL) in found else member.prefill_since_s,
                decode_since_s=float("inf") if (place, DECODE) in found else member.decode_since_s,
            )
            for place, member in enumerate(members)
        ]
        choice = policy.next_job(left, under_way)
        if choice is None:
            return found
        found.append(choice)


def test_policies_are_known_by_the_names_that_templates_have() -> None:
    assert set(UNIT_DISPATCHES) == {"adbs-v1", "round-robin-v1", "fcfs-v1"}
    assert begun(UNIT_DISPATCHES["adbs-v1"](), [IDLE, IDLE]) == []


def test_one_prefill_at_a_time_and_decodes_fill_what_is_left() -> None:
    assert begun(AdaptiveBatches(), [BOTH, BOTH, DECODES]) == [(0, PREFILL), (0, DECODE)]
    assert begun(AdaptiveBatches(), [DECODES, DECODES, DECODES]) == [(0, DECODE), (1, DECODE), (2, DECODE)]


def test_members_prefill_in_turn() -> None:
    policy, busy = AdaptiveBatches(), [WAITS, IDLE, WAITS]
    assert [policy.next_job(busy, NOTHING) for _ in range(3)] == [(0, PREFILL), (2, PREFILL), (0, PREFILL)]


def test_a_prefill_that_waits_for_processors_stops_new_decodes() -> None:
    under_way = UnderWay(0.8, 0, 2)  # two decodes: another would fit, the prefill does not
    assert AdaptiveBatches().next_job([WAITS, DECODES], under_way) is None
    assert AdaptiveBatches().next_job([IDLE, DECODES], under_way) == (1, DECODE)


def test_a_prefill_that_waits_for_blocks_lets_decodes_and_others_prefills_begin() -> None:
    assert AdaptiveBatches().next_job([LACKS_BLOCKS, DECODES], UnderWay(0.4, 0, 1)) == (1, DECODE)
    assert AdaptiveBatches().next_job([LACKS_BLOCKS, WAITS], NOTHING) == (1, PREFILL)


def test_a_large_decode_keeps_its_turn_before_smaller_ones() -> None:
    large = replace(DECODES, decode_share=1.0)
    policy = AdaptiveBatches()
    assert policy.next_job([large, DECODES], UnderWay(0.4, 0, 1)) is None
    assert policy.next_job([large, DECODES], NOTHING) == (0, DECODE)


def test_a_job_larger_than_all_shares_begins_alone() -> None:
    vast = replace(DECODES, decode_share=1.5)
    for policy in (AdaptiveBatches(), RoundRobin(), FirstCome()):
        assert policy.next_job([vast], NOTHING) == (0, DECODE)


def test_round_robin_gives_every_member_its_turn_whatever_it_does() -> None:
    policy = RoundRobin()
    assert policy.next_job([DECODES, WAITS], NOTHING) == (0, DECODE)
    assert policy.next_job([DECODES, WAITS], UnderWay(0.4, 0, 1)) == (1, PREFILL)
    assert policy.next_job([IDLE, WAITS], UnderWay(0.4, 1, 1)) is None  # one prefill at a time


def test_first_come_does_one_job_at_a_time_the_one_ready_for_longest() -> None:
    early, late = replace(WAITS, prefill_since_s=1.0, waiting_since_s=1.0), replace(DECODES, decode_since_s=2.0)
    assert FirstCome().next_job([late, early], NOTHING) == (1, PREFILL)
    assert FirstCome().next_job([late, early], UnderWay(0.1, 0, 1)) is None


def test_who_waits_for_blocks_holds_up_the_prefills_that_came_later_in_first_come() -> None:
    assert FirstCome().next_job([LACKS_BLOCKS, WAITS], NOTHING) is None
    assert FirstCome().next_job([LACKS_BLOCKS, BOTH], NOTHING) == (1, DECODE)
    assert FirstCome().next_job([], NOTHING) is None
