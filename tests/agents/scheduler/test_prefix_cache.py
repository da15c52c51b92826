"""Prompts that begin as others did begin with their KV blocks, over stages that check what is in every block."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages.to_gateway import Finished
from agents.messages.to_scheduler import Leg, OtherLeg
from agents.scheduler.core import SchedulerCore
from agents.scheduler.layout import PipelineLayout
from tests.agents.scheduler.fake_stages import BLOCK_TOKENS, FakeStages, asked, continuation, layout


def sharing(shape: PipelineLayout, shares: bool = True) -> FakeStages:
    core = SchedulerCore(shape, 1000)
    core.share_kv(shares)
    return FakeStages(core, shape)


def submit(at: FakeStages, *requests) -> None:
    for request in requests:
        at.hear(at.core.submit("gw", request, 0.0))


def cached(at: FakeStages, attempt: int) -> int:
    (ended,) = at.ended[attempt]
    assert isinstance(ended, Finished)
    return ended.cached_prompt_tokens


def chat(at: FakeStages, turns: int) -> list[list[int]]:
    """Each turn's prompt is all that was said before, and eight tokens more."""
    text: tuple[int, ...] = tuple(range(40))
    answers = []
    for turn in range(turns):
        text += tuple(500 + 10 * turn + n for n in range(8))
        submit(at, asked(turn, text, 8))
        at.run_dry()
        answers.append(at.tokens[turn])
        text += tuple(at.tokens[turn])
    return answers


def test_ten_turns_of_a_chat_compute_each_token_about_once():
    shape = layout((1.0,), (0.5, 0.5), (1.0,), chunk=64, context=400)
    plain, with_cache = sharing(shape, shares=False), sharing(shape)
    assert chat(plain, 10) == chat(with_cache, 10)
    assert with_cache.core.tally.prompt_tokens * 5 <= plain.core.tally.prompt_tokens
    assert plain.core.tally.looked_up_tokens == 0
    tally = with_cache.core.tally
    assert tally.prompt_tokens == tally.looked_up_tokens - tally.found_tokens
    assert [cached(plain, turn) for turn in range(10)] == [0] * 10
    assert cached(with_cache, 0) == 0
    for turn in range(1, 10):  # all but the block in which the turn before ended, whose last token was never computed
        assert cached(with_cache, turn) >= 40 + 16 * turn - BLOCK_TOKENS - 1


def test_a_prompt_that_is_known_as_a_whole_computes_its_last_block():
    at = sharing(layout((1.0,)))
    prompt = tuple(range(2 * BLOCK_TOKENS))
    submit(at, asked(1, prompt, 3))
    at.run_dry()
    submit(at, asked(2, prompt, 3))
    at.run_dry()
    assert cached(at, 2) == BLOCK_TOKENS
    assert at.tokens[1] == at.tokens[2]


def test_a_request_begins_with_blocks_of_one_that_still_runs():
    at = sharing(layout((1.0,), (1.0,)))
    prompt = tuple(range(9))
    submit(at, asked(1, prompt, 30))
    at.order()
    at.report(1)
    submit(at, asked(2, (*prompt[:8], 99), 5))
    at.run_dry()
    assert cached(at, 2) == 2 * BLOCK_TOKENS
    assert at.tokens[2] == continuation((*prompt[:8], 99), 5)


@pytest.mark.parametrize("shape", [layout((1.0,), chunk=16), layout((1.0,), (1.0,), (1.0,), chunk=16)])
def test_prompts_that_come_together_and_begin_alike_are_computed_once(shape: PipelineLayout):
    at, prompt = sharing(shape), tuple(range(40))
    submit(at, *(asked(attempt, (*prompt, attempt), 5) for attempt in range(6)), asked(6, tuple(range(500, 509)), 5))
    at.run_dry()
    assert at.core.tally.prompt_tokens == 41 + 5 + 9
    for attempt in range(6):
        assert at.tokens[attempt] == continuation((*prompt, attempt), 5)
    assert at.tokens[6] == continuation(tuple(range(500, 509)), 5)


def test_whoever_waits_for_blocks_lets_others_pass():
    at, prompt = sharing(layout((1.0,), chunk=64)), tuple(range(40))
    submit(at, asked(0, prompt), asked(1, prompt), asked(2, tuple(range(500, 509))))
    steps: list[list[int]] = []
    at.on_step = lambda step: steps.append([len(entry.token_ids) for entry in step.entries])
    at.order()
    at.report(1)
    at.order()
    assert steps == [[40, 9], [1, 4, 1]], "the second has nothing to compute but its last block"


def test_whoever_waits_for_blocks_goes_on_when_those_are_not_to_come():
    at, prompt = sharing(layout((1.0,), chunk=8)), tuple(range(40))
    submit(at, asked(0, prompt, 5), asked(1, prompt, 5))
    at.order()
    at.core.cancel("gw", 0)
    at.run_dry()
    assert 0 not in at.ended
    assert at.tokens[1] == continuation(prompt, 5)
    assert cached(at, 1) == 8, "what was ordered before"


def test_requests_of_another_salt_know_nothing_of_each_other():
    at = sharing(layout((1.0,)))
    prompt = tuple(range(12))
    for attempt, salt in enumerate(("", "mine", "", "mine", "yours")):
        submit(at, asked(attempt, prompt, 3, cache_salt=salt))
        at.run_dry()
    assert [cached(at, attempt) for attempt in range(5)] == [0, 0, 8, 8, 0]


def test_blocks_that_nobody_holds_are_free_and_the_oldest_go_first():
    at = sharing(layout((1.0,), blocks=8))
    for n, first in enumerate((0, 100)):
        submit(at, asked(n, tuple(range(first, first + 12)), 4))
        at.run_dry()
    status = at.core.status
    assert status.kv_blocks_free == status.kv_blocks == 8
    assert sum(map(len, at.kept.values())) == 6
    submit(at, asked(2, tuple(range(200, 212)), 4))  # takes the two that were never used, and two of the first
    at.run_dry()
    submit(at, asked(3, tuple(range(100, 112)), 4), asked(4, tuple(range(12)), 4))
    at.run_dry()
    assert cached(at, 3) == 8
    assert cached(at, 4) < 8


def test_prompts_of_two_legs_share_blocks_and_hand_over_all_of_their_tokens():
    at = sharing(layout((1.0,)))
    prompt = tuple(range(12))
    for attempt in (1, 2):
        peer = OtherLeg("other", "tcp://other:1", "d" * 40, f"h{attempt}")
        submit(at, asked(attempt, prompt, 4, leg=Leg.PREFILL, peer=peer))
        at.run_dry()
    assert at.core.tally.found_tokens == 8
    assert at.core.tally.prompt_tokens == 12 + 4


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 3), st.integers(1, 36), st.integers(1, 20)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("step"), st.integers(0, 5)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("shape", [layout((1.0,), blocks=16), layout((1.0,), (0.6, 0.4), blocks=14, cap=4)])
@settings(max_examples=120, deadline=None)
@given(moves=MOVES)
def test_whatever_comes_and_goes_every_answer_is_right_and_no_block_is_lost(shape: PipelineLayout, moves: list[tuple]):
    """`FakeStages` checks that shared blocks hold the run's own tokens, that none is dropped while a run has it, and
    that blocks held and kept are never more than a node has."""
    at = sharing(shape)
    wanted: dict[int, list[int]] = {}
    for attempt, move in enumerate(moves):
        match move:
            case ("ask", family, length, tokens):
                prompt = tuple(range(100 * family, 100 * family + length))
                wanted[attempt] = continuation(prompt, tokens)
                submit(at, asked(attempt, prompt, tokens))
            case ("cancel", other):
                if other not in at.ended and wanted.pop(other, None):
                    at.core.cancel("gw", other)
            case ("step", which):
                at.order()
                at.report_one(which)
    at.run_dry()
    for attempt, tokens in wanted.items():
        assert at.tokens[attempt] == tokens
    status = at.core.status
    assert status.kv_blocks_free == status.kv_blocks
    assert not at.cached
    assert not at.shares
    assert status.running == status.waiting == 0
