"""A request on two legs, case by case, over a prefill and a decode scheduler."""

from dataclasses import replace

import pytest

from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason, SchedulerState
from agents.messages.to_kv_source import Accept, Decline, Taken
from agents.messages.to_kv_target import Offer, Withdraw
from agents.messages.to_scheduler import Leg, OtherLeg
from tests.agents.scheduler.fake_stages import asked, continuation, layout
from tests.agents.scheduler.two_cores import DECODE, PREFILL, TwoCores

SHAPE = layout((1.0,), (0.5, 0.5))


def held(at: TwoCores) -> TwoCores:
    """The first request is computed, and offered; nobody has heard of it yet."""
    while not at.to_decode:
        at.order(False)
        at.report(False, 0)
        at.order(False)
    return at


def is_empty(at: TwoCores) -> bool:
    statuses = [side.core.status for side in (at.prefill, at.decode)]
    return all(s.running == s.waiting == 0 and s.kv_blocks_free == s.kv_blocks for s in statuses)


def test_prefill_sends_the_first_token_and_decode_all_others():
    at = TwoCores(SHAPE, layout((1.0,)))
    at.submit(7, 6, 0, decode_first=False)
    held(at)
    assert at.prefill.tokens[0] == at.wanted[0][:1]
    assert [word.message for word in at.to_decode] == [Offer("h0", 7, at.wanted[0][0])]
    at.run_dry()
    assert at.prefill.tokens[0] == at.wanted[0]
    assert at.prefill.ended[0] == [Finished(0, FinishReason.HANDED_OFF, 1)]
    assert at.decode.ended[0] == [Finished(0, FinishReason.LENGTH, 6)]
    assert at.prefill.core.tally.sent_kv_bytes == at.decode.core.tally.received_kv_bytes > 0
    assert at.decode.core.tally.prompt_tokens == 0
    assert is_empty(at)


def test_decode_goes_on_with_drafts_of_what_the_prompt_says():
    at = TwoCores(SHAPE, layout((1.0,)), choose=lambda text: (text[-1] + 1) % 6)
    at.submit(7, 30, 0, decode_first=False, stop_ids=())
    at.run_dry()
    assert at.decode.tokens[0] == at.wanted[0]
    assert at.prefill.core.tally.draft_tokens == 0
    assert at.decode.core.tally.accepted_tokens > 15
    assert at.decode.last_step < 15
    assert is_empty(at)


def test_what_is_expected_holds_no_blocks_and_what_comes_holds_them_before_anything_is_sent():
    at = TwoCores(SHAPE, layout((1.0,)))
    at.submit(7, 6, 0, decode_first=True)
    free = at.decode.core.status.kv_blocks
    held(at)
    assert at.decode.core.status.kv_blocks_free == free
    at.hear(is_decode=True)
    at.order(is_decode=True)
    assert at.decode.core.status.kv_blocks_free == free - 2
    assert [word.message for word in at.to_prefill] == [Accept("h0", 1, (0,))]
    assert not at.prefill.dispatches


def decoded(at: TwoCores) -> TwoCores:
    """The first request has ended at the decode side, whose words are not heard yet; its gateway cancelled the rest."""
    held(at)
    at.hear(is_decode=True)
    at.order(is_decode=True)
    at.hear(is_decode=False)
    at.order(is_decode=False)
    assert at.deliver(0)
    while at.order(is_decode=True) or at.decode.flights:
        at.report(True, 0)
    assert 0 in at.decode.ended
    return at


def test_a_request_that_its_gateway_cancelled_before_the_word_came_counts_as_sent_once():
    at = TwoCores(SHAPE, layout((1.0,)))
    at.submit(7, 6, 0, decode_first=True)
    decoded(at)
    (word,) = at.to_prefill
    assert 0 not in at.prefill.ended, "cancelled, not handed off"
    for key, message in (("x" * 40, word.message), (DECODE, Accept("h0", 1, (0,)))):
        assert at.prefill.core.hear_target(key, message) == ()
    assert at.prefill.core.tally.sent_kv_bytes == 0
    for _ in range(2):
        assert at.prefill.core.hear_target(DECODE, word.message) == ()
        assert at.prefill.core.tally.sent_kv_bytes == at.decode.core.tally.received_kv_bytes > 0
    assert is_empty(at)


def test_what_was_taken_of_a_cancelled_request_is_waited_for_until_its_deadline():
    at = TwoCores(SHAPE, layout((1.0,)))
    at.submit(7, 6, 0, decode_first=True)
    decoded(at)
    (word,) = at.to_prefill
    assert at.prefill.core.expire(10.0) == ()
    assert at.prefill.core.hear_target(DECODE, word.message) == ()
    assert at.prefill.core.tally.sent_kv_bytes == 0


def test_of_a_request_that_is_withdrawn_on_its_way_nothing_counts_as_sent():
    at = TwoCores(SHAPE, layout((1.0,)))
    at.submit(7, 6, 0, decode_first=True)
    held(at)
    at.hear(is_decode=True)
    at.order(is_decode=True)
    at.hear(is_decode=False)
    at.cancel(0)
    at.run_dry()
    late = Taken("h0", 100)
    assert at.prefill.core.hear_target(DECODE, late) == ()
    assert at.prefill.core.tally.sent_kv_bytes == 0, "the other leg has said that it did not take it"


def test_an_output_of_one_token_is_over_before_anything_is_handed_off():
    at = TwoCores(SHAPE, SHAPE)
    at.submit(7, 1, 0, decode_first=True)
    at.run_dry()
    assert at.prefill.ended[0] == [Finished(0, FinishReason.LENGTH, 1)]
    assert not at.prefill.dispatches
    assert is_empty(at)


def test_a_resumed_request_is_handed_off_behind_the_tokens_that_its_client_has():
    at = TwoCores(SHAPE, SHAPE)
    at.submit(7, 9, 3, decode_first=True)
    at.run_dry()
    assert at.prefill.tokens[0] == at.wanted[0]
    assert at.prefill.dispatches[0].tokens == 10


def test_a_decode_instance_with_a_shorter_context_ends_the_output_there():
    at = TwoCores(SHAPE, replace(SHAPE, max_context_tokens=8))
    at.submit(7, 6, 0, decode_first=True)
    at.run_dry()
    assert at.decode.ended[0] == [Finished(0, FinishReason.LENGTH, 1)]
    assert at.prefill.tokens[0] == at.wanted[0][:1]
    assert is_empty(at)


@pytest.mark.parametrize("offer", [Offer("h0", 6, 5), Offer("h0", 7, 1000)])
def test_an_offer_of_something_else_is_declined(offer: Offer):
    at = TwoCores(SHAPE, SHAPE)
    at.submit(7, 6, 0, decode_first=True)
    held(at)
    at.decode.hear(at.decode.core.hear_source(PREFILL, offer))
    (ended,) = at.decode.ended[0]
    assert isinstance(ended, Failed)
    assert ended.failure is Failure.HAND_OFF
    (word,) = at.decode.core.take_words()
    assert isinstance(word.message, Decline)
    at.prefill.hear(at.prefill.core.hear_target(DECODE, word.message))
    assert at.prefill.ended[0][0].failure is Failure.HAND_OFF
    at.run_dry()
    assert is_empty(at)


def test_a_stranger_may_not_speak_of_a_hand_off():
    at = TwoCores(SHAPE, SHAPE)
    at.submit(7, 6, 0, decode_first=True)
    held(at)
    for message in (Accept("h0", 1, (0, 0)), Taken("h0", 9), Decline("h0", "no")):
        assert at.prefill.core.hear_target("x" * 40, message) == ()
    for message in (Offer("h0", 7, 5), Withdraw("h0")):
        assert at.decode.core.hear_source("x" * 40, message) == ()
    at.run_dry()
    assert at.prefill.tokens[0] == at.wanted[0]


def test_both_sides_drain_without_losing_what_is_between_them():
    at = TwoCores(SHAPE, SHAPE)
    for _ in range(3):
        at.submit(7, 6, 0, decode_first=True)
    held(at)
    at.prefill.core.drain()
    at.decode.core.drain()
    assert at.prefill.core.status.state is SchedulerState.DRAINING
    at.run_dry()
    assert [at.prefill.tokens[n] for n in range(3)] == [at.wanted[n] for n in range(3)]
    assert is_empty(at)


def test_a_deadline_on_either_side_ends_it_on_both():
    for is_decode in (False, True):
        at = TwoCores(SHAPE, SHAPE)
        at.submit(7, 6, 0, decode_first=True)
        held(at)
        at.hear(is_decode=True)
        at.order(is_decode=True)
        side = at.side(is_decode)
        side.hear(side.core.expire(10.0))
        assert side.ended[0][0].failure is Failure.DEADLINE
        for other in (False, True):  # without the gateway: by word of the other leg
            at.order(other)
        while at.to_decode:
            at.decode.hear(at.decode.core.hear_source(PREFILL, at.to_decode.popleft().message))
        while at.to_prefill:
            at.prefill.hear(at.prefill.core.hear_target(DECODE, at.to_prefill.popleft().message))
        assert is_empty(at)


def test_an_instance_that_breaks_down_tells_the_other_leg():
    at = TwoCores(SHAPE, SHAPE)
    at.submit(7, 6, 0, decode_first=True)
    held(at)
    at.hear(is_decode=True)
    at.prefill.hear(at.prefill.core.break_down("stage 1 is gone"))
    assert [word.message for word in at.prefill.core.take_words()] == [Withdraw("h0")]
    at.decode.hear(at.decode.core.hear_source(PREFILL, Withdraw("h0")))
    assert at.decode.ended[0][0].failure is Failure.HAND_OFF
    at.order(True)
    assert at.decode.core.status.waiting == 0


def test_legs_without_another_instance_and_hand_offs_named_twice_are_refused():
    at = TwoCores(SHAPE, SHAPE)
    peer = OtherLeg("other", "tcp://h:1", DECODE, "h7")
    core = at.prefill.core
    for request in (asked(1, leg=Leg.PREFILL), asked(2, leg=Leg.DECODE), asked(3, peer=peer)):
        (answer,) = core.submit("gw", request, 0.0)
        assert answer.message.failure is Failure.HAND_OFF
    assert core.submit("gw", asked(4, leg=Leg.PREFILL, peer=peer), 0.0) == ()
    (answer,) = core.submit("gw", asked(5, leg=Leg.PREFILL, peer=peer), 0.0)
    assert answer.message.failure is Failure.HAND_OFF


def test_who_waits_for_its_cache_to_go_is_not_preempted_for_a_longer_one():
    """A whole request beside a prefill leg, at a node that has blocks for one of them only."""
    at = TwoCores(layout((1.0,), blocks=6, cap=4), SHAPE)
    at.prefill.hear(at.prefill.core.submit("gw", asked(9, max_tokens=18), 0.0))
    at.submit(7, 6, 0, decode_first=True)
    held(at)
    while at.order(False) or at.prefill.flights:
        at.report(False, 0)
    assert at.prefill.core.tally.preemptions == 0
    assert 9 not in at.prefill.ended, "it waits for blocks"
    at.run_dry()
    assert at.prefill.tokens[9] == continuation((5, 6, 7), 18)
    assert at.prefill.tokens[0] == at.wanted[0]
    assert is_empty(at)


def begun(at: TwoCores, chunks: int = 1) -> TwoCores:
    """The first of some chunks of a prompt is under way, and what is said of it heard by both sides."""
    at.submit(8 * chunks, 6, 0, decode_first=True)
    for is_decode in (False, True):
        at.order(is_decode)
        at.hear(is_decode=not is_decode)
    at.order(is_decode=False)
    return at


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_prompt_is_sent_from_its_first_step_on_and_the_second_token_follows_the_first_at_once(chunks: int):
    at = begun(TwoCores(SHAPE, layout((1.0,)), streams_kv=True), chunks)
    (order,) = at.prefill.dispatches
    assert (order.tokens, order.target_nodes) == (8 * chunks, (0,))
    assert at.prefill.tokens[0] == [], "nothing is sampled yet"
    for _ in range(chunks - 1):
        assert not at.deliver(0), "it is not all computed"
        at.report(False, 0)
        at.order(False)
    assert at.deliver(0), "ahead of the first token"
    assert not at.order(True), "what follows the prompt is not known"
    at.report(False, 0)
    at.order(False)
    assert [word.message for word in at.to_decode] == [Offer("h0", 8 * chunks, at.wanted[0][0])]
    at.hear(is_decode=True)
    assert at.order(True) == 1
    at.run_dry()
    assert at.prefill.tokens[0] == at.wanted[0]
    assert at.prefill.ended[0] == [Finished(0, FinishReason.HANDED_OFF, 1)]
    assert at.prefill.core.tally.sent_kv_bytes == at.decode.core.tally.received_kv_bytes > 0
    assert is_empty(at)


@pytest.mark.parametrize("streams_kv", [True, False])
@pytest.mark.parametrize("end", range(1, 17))
def test_an_answer_that_ends_at_any_position_by_length_or_by_a_stop_token(end: int, streams_kv: bool):
    stop = continuation(tuple(range(20)), 17)[end]
    for max_tokens, stop_ids in ((end, ()), (40, (stop,))):
        at = TwoCores(SHAPE, layout((1.0,), (1.0,)), streams_kv=streams_kv)
        at.submit(20, max_tokens, 0, decode_first=True, stop_ids=stop_ids)
        at.run_dry()
        assert at.prefill.tokens[0] == at.wanted[0]
        assert is_empty(at)


def test_an_answer_of_one_token_that_nobody_foresaw_is_withdrawn_and_its_room_is_free_again():
    at = TwoCores(SHAPE, SHAPE, streams_kv=True)
    stop = continuation(tuple(range(7)), 1)[0]
    at.submit(7, 6, 0, decode_first=True, stop_ids=(stop,))
    for is_decode in (False, True):
        at.order(is_decode)
        at.hear(is_decode=not is_decode)
    at.prefill.report(1)
    assert at.prefill.ended[0] == [Finished(0, FinishReason.STOP, 0)]
    at.order(False)
    assert [word.message for word in at.to_decode] == [Withdraw("h0", is_early=True)]
    assert at.decode.core.status.kv_blocks_free < at.decode.core.status.kv_blocks
    at.decode.hear(at.decode.core.hear_source(PREFILL, at.to_decode.popleft().message))
    assert at.decode.core.status.kv_blocks_free == at.decode.core.status.kv_blocks
    assert 0 not in at.decode.ended, "its gateway knows of the end by the other leg"
    at.settle()
    at.run_dry()
    assert is_empty(at)


def test_a_decode_instance_that_has_room_only_when_the_prompt_is_done_takes_it_then():
    at = TwoCores(SHAPE, layout((1.0,), blocks=8), streams_kv=True)
    at.decode.hear(at.decode.core.submit("gw", asked(9, max_tokens=20), 0.0))
    at.decode.order()
    at.submit(21, 6, 0, decode_first=True)
    while at.order(False) or at.prefill.flights:
        at.report(False, 0)
        at.hear(is_decode=True)
        at.order(True)
    assert not at.prefill.dispatches
    assert len(at.prefill.tokens[0]) == 1
    at.run_dry()
    assert at.prefill.tokens[0] == at.wanted[0]
    assert at.prefill.tokens[9] == continuation((5, 6, 7), 20)
    assert is_empty(at)


def test_a_prompt_that_is_preempted_before_its_credit_comes_is_offered_again():
    """An older whole request needs blocks of the one node, and the credit comes when the prompt has lost its own."""
    at = TwoCores(layout((1.0,), blocks=6, cap=4), layout((1.0,)), streams_kv=True)
    at.prefill.hear(at.prefill.core.submit("gw", asked(9, max_tokens=18), 0.0))
    at.submit(16, 6, 0, decode_first=True)
    while not at.prefill.core.tally.preemptions:
        at.order(False)
        at.prefill.report(max(at.prefill.flights, key=lambda step: (at.prefill.flights[step][0].group == 0, step)))
        at.order(False)
    at.run_dry()
    assert at.prefill.tokens[0] == at.wanted[0]
    assert at.prefill.tokens[9] == continuation((5, 6, 7), 18)
    assert is_empty(at)


def test_a_prompt_whose_way_is_broken_fails_and_leaves_nothing():
    for fail in (TwoCores.strand, lambda at: at.part(is_decode=False), lambda at: at.part(is_decode=True)):
        at = begun(TwoCores(SHAPE, SHAPE, streams_kv=True), chunks=2)
        fail(at)
        at.run_dry()
        assert 0 in at.stopped
        assert at.prefill.tokens[0] == []
        assert is_empty(at)
