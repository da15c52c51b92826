"""What the scheduler does with requests, case by case, over stages that check every order."""

from collections import Counter

import pytest

from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason, SchedulerState, TokenLogprobs
from agents.messages.to_scheduler import Leg
from agents.scheduler.core import SchedulerCore
from agents.scheduler.flight import BadResultError, Sampled
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.scheduler.orders import GroupStep
from tests.agents.scheduler.fake_stages import BLOCK_TOKENS, FakeStages, asked, continuation, layout


def stages(shape: PipelineLayout, max_waiting: int = 100) -> FakeStages:
    return FakeStages(SchedulerCore(shape, max_waiting), shape)


def submit(at: FakeStages, *requests) -> None:
    for request in requests:
        at.hear(at.core.submit("gw", request, 0.0))


def is_empty(at: FakeStages) -> bool:
    status = at.core.status
    return status.running == status.waiting == 0 and status.kv_blocks_free == status.kv_blocks and not at.cached


def test_a_request_is_computed_in_chunks_and_ends_at_its_length():
    at = stages(layout((1.0,), (1.0,), chunk=4))
    chunks = []
    at.on_step = lambda step: chunks.append(len(step.entries[0].token_ids))
    submit(at, asked(1, tuple(range(10)), 3))
    at.run_dry()
    assert chunks == [4, 4, 2, 1, 1]
    assert at.tokens[1] == continuation(tuple(range(10)), 3)
    assert at.ended[1] == [Finished(1, FinishReason.LENGTH, 3)]
    assert is_empty(at)


def test_a_stop_token_ends_the_output_and_is_not_sent():
    prompt = (5, 6, 7)
    stop = continuation(prompt, 4)[3]
    at = stages(layout((1.0,)))
    submit(at, asked(1, prompt, 50, stop_ids=(stop,)))
    at.run_dry()
    expected = continuation(prompt, 50, (stop,))
    assert at.tokens[1] == expected
    assert at.ended[1] == [Finished(1, FinishReason.STOP, len(expected))]


def test_a_resumed_request_goes_on_behind_what_was_sent():
    prompt, at = (5, 6, 7), stages(layout((1.0,), (0.5, 0.5)))
    whole = continuation(prompt, 9)
    at.tokens[1] = list(whole[:4])
    submit(at, asked(1, prompt, 9, generated=tuple(whole[:4])), asked(2, prompt, 3, generated=tuple(whole[:3])))
    at.run_dry()
    assert at.tokens[1] == whole
    assert at.ended == {1: [Finished(1, FinishReason.LENGTH, 9)], 2: [Finished(2, FinishReason.LENGTH, 3)]}


def test_the_context_ends_an_output_as_its_length_does():
    at = stages(layout((1.0,), context=10))
    submit(at, asked(1, tuple(range(7)), 50))
    at.run_dry()
    assert at.ended[1] == [Finished(1, FinishReason.LENGTH, 3)]


@pytest.mark.parametrize(
    ("request_", "failure"),
    [
        (asked(1, model="other"), Failure.UNKNOWN_MODEL),
        (asked(1, tuple(range(200))), Failure.TOO_LONG),
        (asked(1, tuple(range(90)), 60), Failure.TOO_LONG),
        (asked(1, leg=Leg.PREFILL), Failure.HAND_OFF),
        (asked(1, ()), Failure.UNSUPPORTED),
        (asked(1, (5, 1000)), Failure.UNSUPPORTED),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(request_, failure: Failure):
    at = stages(layout((1.0,), blocks=32))
    submit(at, request_)
    (ended,) = at.ended[1]
    assert isinstance(ended, Failed)
    assert ended.failure is failure


def test_a_full_queue_a_repeated_attempt_and_a_drain_refuse():
    at = stages(layout((1.0,)), max_waiting=2)
    submit(at, asked(1), asked(1), asked(2), asked(3))
    at.core.drain()
    submit(at, asked(4))
    failures = {n: ended[0].failure for n, ended in at.ended.items()}
    assert failures == {1: Failure.UNSUPPORTED, 3: Failure.OVERLOADED, 4: Failure.DRAINING}
    at.run_dry()
    assert set(at.tokens) == {1, 2}
    assert at.core.status.state is SchedulerState.DRAINING
    assert is_empty(at)


def test_a_cancelled_request_is_released_and_a_late_result_of_it_ignored():
    at = stages(layout((1.0,), (1.0,)))
    submit(at, asked(1, max_tokens=50), asked(2, max_tokens=5))
    at.order()
    at.core.cancel("gw", 1)
    at.core.cancel("gw", 99)
    at.run_dry()
    assert 1 not in at.tokens
    assert 1 not in at.ended
    assert at.tokens[2] == continuation((5, 6, 7), 5)
    assert at.releases == 2
    assert is_empty(at)


def test_a_gateway_that_leaves_and_a_deadline_free_what_is_held():
    at = stages(layout((1.0,)))
    submit(at, asked(1, max_tokens=50, deadline_s=5.0))
    at.hear(at.core.submit("other", asked(2, max_tokens=50), 0.0))
    at.order()
    at.core.leave("other")
    assert at.core.expire(4.9) == ()
    at.hear(at.core.expire(5.0))
    assert [ended.failure for ended in at.ended[1]] == [Failure.DEADLINE]
    at.run_dry()
    assert is_empty(at)


def test_a_lost_stage_fails_everything_and_refuses_what_comes():
    at = stages(layout((1.0,)))
    submit(at, asked(1), asked(2))
    at.order()
    at.hear(at.core.break_down("stage 0 is gone"))
    submit(at, asked(3))
    assert at.ended == {n: [Failed(n, Failure.ENGINE, "stage 0 is gone")] for n in (1, 2, 3)}
    assert at.core.next_orders() == ()


def test_groups_fill_evenly_and_each_is_split_by_weight():
    at = stages(layout((1.0,), (0.5, 0.25, 0.25), cap=64, chunk=1000, blocks=1000))
    seen: dict[int, Counter] = {}
    at.on_step = lambda step: seen.setdefault(step.group, Counter()).update(e.nodes[1] for e in step.entries)
    submit(at, *(asked(n) for n in range(16)))
    at.order()
    assert seen == {0: Counter({0: 4, 1: 2, 2: 2}), 1: Counter({0: 4, 1: 2, 2: 2})}


def test_without_kv_blocks_the_youngest_waits_and_is_computed_again():
    at = stages(layout((1.0,), blocks=6, cap=4))
    submit(at, asked(1, max_tokens=18), asked(2, max_tokens=18))
    at.run_dry()
    assert at.releases == 3, "one request was preempted once"
    for attempt in (1, 2):
        assert at.tokens[attempt] == continuation((5, 6, 7), 18)
    assert is_empty(at)


def test_requests_are_begun_in_the_order_of_the_turns_that_their_gateways_say():
    at = stages(layout((1.0,), cap=1))
    submit(at, asked(1, later_s=5.0), asked(2, later_s=2.0), asked(3), asked(4, later_s=-1.0), asked(5))
    at.run_dry()
    assert list(at.ended) == [4, 3, 5, 2, 1]
    for attempt in range(1, 6):
        assert at.tokens[attempt] == continuation((5, 6, 7), 8)
    assert is_empty(at)


def test_log_probabilities_travel_with_their_tokens():
    at = stages(layout((1.0,)))
    submit(at, asked(1, max_tokens=1))
    (step,) = at.core.next_orders()
    assert isinstance(step, GroupStep)
    logprobs = TokenLogprobs(-0.5, ((4, -0.5),))
    tokens, _ = at.core.record(step.number, 0, {step.entries[0].run: Sampled((4,), (logprobs,))})
    assert tokens.message.runs[0].logprobs == (logprobs,)


def test_results_that_nobody_asked_for_are_a_fault():
    at = stages(layout((1.0,)))
    submit(at, asked(1))
    at.order()
    with pytest.raises(BadResultError, match="made"):
        at.core.record(1, 0, {})
    with pytest.raises(BadResultError, match="not asked"):
        at.core.record(7, 0, {})


def test_a_layout_without_stages_or_with_one_name_twice_is_refused():
    node = NodeLimits("a", 1.0, 1, 1, 1)
    with pytest.raises(ValueError, match="at least one"):
        PipelineLayout("m", ((),), 16, 100, 9)
    with pytest.raises(ValueError, match="names"):
        PipelineLayout("m", ((node,), (node,)), 16, 100, 9)
    with pytest.raises(ValueError, match="positive"):
        NodeLimits("a", 0.0, 1, 1, 1)


def test_there_is_room_for_a_prompt_as_on_the_node_with_the_most_of_the_stage_with_the_least():
    at = stages(layout((1.0,), (0.5, 0.5), blocks=20))
    assert at.core.status.prompt_tokens_free == 20 * BLOCK_TOKENS
    submit(at, asked(1, tuple(range(41))))
    at.order()
    assert at.core.status.prompt_tokens_free == (20 - 11) * BLOCK_TOKENS  # the first stage has one node
    at.core.cancel("gw", 1)
    at.order()
    assert at.core.status.prompt_tokens_free == 20 * BLOCK_TOKENS
