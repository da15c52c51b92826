"""What is known of hand-offs that are over here, and for how long."""

from agents.messages.to_kv_source import Decline, Taken
from agents.messages.to_scheduler import Leg, OtherLeg
from agents.scheduler.hand_offs import HandOffs
from agents.scheduler.sequence import ActiveRun, Sequence, SequencePhase
from tests.agents.scheduler.fake_stages import asked

DECODE = "d" * 40


def withdraw(hand_offs: HandOffs, number: int, target_run: int = 7) -> None:
    """A prefill leg begins, is computed, gets its credit to send, unless `target_run` is -1, and is cancelled."""
    peer = OtherLeg("other", "tcp://other:1", DECODE, f"h{number}")
    sequence = Sequence(("gw", number), asked(number, leg=Leg.PREFILL, peer=peer), number, 10.0 + number, 8)
    hand_offs.begin(sequence)
    sequence.is_offered = True
    sequence.phase, sequence.admission = SequencePhase.HELD, ActiveRun(number, 0, (0,), 1, 3, target_run=target_run)
    hand_offs.end(sequence, "cancelled")


def test_of_very_many_that_were_withdrawn_the_oldest_go_uncounted():
    hand_offs = HandOffs()
    for number in range(5000):
        withdraw(hand_offs, number)
    counted = [hand_offs.taken_after_all(DECODE, Taken(f"h{number}", 1)) for number in range(5000)]
    assert counted == sorted(counted)
    assert 1000 < sum(counted) < 5000


def test_what_had_no_credit_or_is_declined_or_late_is_no_more_known():
    hand_offs = HandOffs()
    for number in range(4):
        withdraw(hand_offs, number, target_run=-1 if number == 0 else 7)
    assert hand_offs.taken_after_all(DECODE, Decline("h1", "cancelled")) == 0
    hand_offs.forget_late(12.0)
    assert [hand_offs.taken_after_all(DECODE, Taken(f"h{number}", 5)) for number in range(4)] == [0, 0, 0, 5]
