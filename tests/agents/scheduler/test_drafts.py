"""Answers with drafts are those without, in fewer steps, and drafts take nothing from anybody."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages.to_gateway import Finished, FinishReason
from agents.scheduler.core import SchedulerCore
from agents.scheduler.flight import BadResultError, Sampled
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.orders import GroupStep
from templates_lib.values.speculation import Speculation
from tests.agents.scheduler.fake_stages import BLOCK_TOKENS, FakeStages, asked, continuation, layout

SPECULATION = Speculation(ngram=2, tokens=4)


def often_alike(text: tuple[int, ...]) -> int:
    """A text in circles, which leaves them now and then by all that was said: a wrong token anywhere shows."""
    return sum(text) % 5 if len(text) % 11 == 0 else (text[-1] * 3 + 1) % 7


def alternating(text: tuple[int, ...]) -> int:
    return 3 - text[-1]


def drafting(
    shape: PipelineLayout, speculation: Speculation | None = SPECULATION, choose=often_alike, shares: bool = True
) -> FakeStages:
    core = SchedulerCore(shape, 1000)
    core.share_kv(shares)
    core.speculate(speculation)
    return FakeStages(core, shape, choose)


def submit(at: FakeStages, *requests) -> None:
    for request in requests:
        at.hear(at.core.submit("gw", request, 0.0))


def is_empty(at: FakeStages) -> bool:
    status = at.core.status
    return status.running == status.waiting == 0 and status.kv_blocks_free == status.kv_blocks and not at.cached


def steps_of(at: FakeStages) -> list[GroupStep]:
    """Those that are ordered from now on."""
    steps: list[GroupStep] = []
    at.on_step = steps.append
    return steps


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 2), st.integers(1, 30), st.integers(1, 30), st.integers(0, 8)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("step"), st.integers(0, 5)),
    ),
    max_size=60,
)
SHAPES = [layout((1.0,), blocks=18), layout((1.0,), (0.6, 0.4), blocks=18, cap=4), layout((1.0,), blocks=64, cap=3)]


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=40, deadline=None)
@given(moves=MOVES)
def test_whatever_comes_and_goes_answers_are_those_without_drafts(shape: PipelineLayout, moves: list[tuple]) -> None:
    """`FakeStages` checks that each step begins behind what is right, that no node has more rows than a full group,
    that blocks of wrong tokens are neither shared nor kept, and that blocks are never more than there are."""
    at = drafting(shape)
    wanted: dict[int, list[int]] = {}
    for attempt, move in enumerate(moves):
        match move:
            case ("ask", family, length, tokens, stop):
                prompt = tuple((family + n) % 7 for n in range(length))
                wanted[attempt] = continuation(prompt, tokens, (stop,), often_alike)
                submit(at, asked(attempt, prompt, tokens, stop_ids=(stop,)))
            case ("cancel", other):
                if other not in at.ended and wanted.pop(other, None) is not None:
                    at.core.cancel("gw", other)
            case ("step", which):
                at.order()
                at.report_one(which)
    at.run_dry()
    for attempt, tokens in wanted.items():
        (ended,) = at.ended[attempt]
        assert isinstance(ended, Finished)
        assert at.tokens.get(attempt, []) == tokens
        assert ended.output_tokens == len(tokens)
    assert is_empty(at)
    assert at.core.tally.accepted_tokens <= at.core.tally.draft_tokens


def test_a_text_that_repeats_itself_takes_few_steps():
    counts = []
    for speculation in (None, SPECULATION):
        at = drafting(layout((1.0,)), speculation, alternating)
        steps = steps_of(at)
        submit(at, asked(1, (1, 2, 1, 2), 101))
        at.run_dry()
        assert at.tokens[1] == continuation((1, 2, 1, 2), 101, choose=alternating)
        counts.append(len(steps))
    assert counts == [101, 21], "a prompt, and five tokens a step"
    assert at.core.tally.draft_tokens == at.core.tally.accepted_tokens == 80
    assert at.core.tally.prompt_tokens == 4


def test_an_output_ends_at_its_stop_token_amid_a_draft():
    at = drafting(layout((1.0,)), choose=lambda text: (text[-1] + 1) % 6)
    prompt = tuple(range(6)) * 2
    submit(at, asked(1, prompt, 50, stop_ids=(3,)))
    at.run_dry()
    assert at.tokens[1] == [0, 1, 2]
    assert at.ended[1][0].reason is FinishReason.STOP
    assert sum(map(len, at.kept.values())) == 15 // BLOCK_TOKENS, "what is behind the end is no text"
    submit(at, asked(2, prompt, 7))
    at.run_dry()
    assert at.tokens[2] == [0, 1, 2, 3, 4, 5, 0]
    assert at.core.tally.accepted_tokens > 0
    assert is_empty(at)


def test_blocks_of_drafts_that_were_right_are_known_to_others():
    at = drafting(layout((1.0,)), choose=alternating)
    submit(at, asked(1, (1, 2, 1, 2), 30))
    at.run_dry()
    submit(at, asked(2, (1, 2) * 18, 1))
    at.run_dry()
    assert at.ended[2][0].cached_prompt_tokens == 33 // BLOCK_TOKENS * BLOCK_TOKENS


@pytest.mark.parametrize("members", [1, 3, 4])
def test_drafts_take_the_places_that_members_leave(members: int) -> None:
    at = drafting(layout((1.0,), cap=4, chunk=64), choose=alternating)
    submit(at, *(asked(attempt, (1, 2, 1, 2), 40) for attempt in range(members)))
    at.order()
    at.report(1)
    steps = steps_of(at)
    at.order()
    (step,) = steps
    assert sum(len(entry.draft) for entry in step.entries) == 4 - members


@pytest.mark.parametrize(("free", "drafted"), [(0, (1, 1)), (2, (1, 1)), (3, (4, 1))])
def test_drafts_preempt_nobody_and_leave_a_block_for_each_request(free: int, drafted: tuple[int, int]) -> None:
    """What they get beside lies in their own blocks."""
    at = drafting(layout((1.0,), blocks=5 + free, chunk=64), choose=alternating)
    submit(at, asked(1, (1, 2) * 3, 15), asked(2, (2, 1) * 5, 3))  # two blocks, and three
    at.order()
    at.report(1)
    steps = steps_of(at)
    at.order()
    first, second = steps[0].entries
    assert (len(first.draft), len(second.draft)) == drafted
    at.run_dry()
    assert at.tokens == {1: continuation((1, 2) * 3, 15, choose=alternating), 2: [2, 1, 2]}
    assert is_empty(at)


def test_a_text_that_never_says_the_same_again_has_few_drafts():
    at = drafting(layout((1.0,)), choose=lambda text: 1 if text[-1] > 1 else 100 + len(text))
    submit(at, asked(1, (1,), 150))
    at.core.speculate(Speculation(1, 4))  # behind each 1 came another token the last time
    at.run_dry()
    tally = at.core.tally
    assert tally.accepted_tokens == 0
    assert 0 < tally.draft_tokens < 150 / 5


def test_a_worker_that_accepts_another_token_than_was_drafted_is_not_trusted():
    at = drafting(layout((1.0,)), choose=alternating)
    submit(at, asked(1, (1, 2, 1, 2), 40))
    at.order()
    at.report(1)
    (step,) = [order for order in at.core.next_orders() if isinstance(order, GroupStep)]
    (entry,) = step.entries
    assert entry.draft
    for made in ((), (entry.draft[0] + 1, 5), (*entry.draft, 1, 1)):
        with pytest.raises(BadResultError):
            at.core.record(step.number, 0, {entry.run: Sampled(made)})


def test_tokens_that_are_no_characters_are_answered_without_drafts():
    at = drafting(layout((1.0,)), choose=lambda _: 0x110000)
    submit(at, asked(1, (1, 2, 1, 2), 20))
    at.run_dry()
    assert at.tokens[1] == [0x110000] * 20
    assert at.core.tally.draft_tokens == 0
    assert is_empty(at)


def test_a_prompt_beside_answers_has_no_draft():
    at = drafting(layout((1.0,), chunk=8), choose=alternating)
    submit(at, asked(1, (1, 2, 1, 2), 40))
    at.order()
    at.report(1)
    submit(at, asked(2, (1, 2) * 10, 40))
    steps = steps_of(at)
    at.order()
    (answer, prompt) = steps[0].entries
    assert answer.draft
    assert (prompt.draft, len(prompt.token_ids)) == ((), 8)
    at.run_dry()
    assert at.tokens[2] == continuation((1, 2) * 10, 40, choose=alternating)
