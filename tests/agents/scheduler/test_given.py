"""Requests that come with rows of other components, over stages that check when these are there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages.component_work import PromptRows, TensorAt
from agents.messages.to_gateway import Failed, Failure, Finished
from agents.messages.to_kv_target import Offer
from agents.messages.to_scheduler import Generate, Leg, OtherLeg
from agents.scheduler.core import SchedulerCore
from agents.scheduler.given import RowsTaken
from agents.scheduler.layout import PipelineLayout
from tests.agents.scheduler.fake_stages import BLOCK_TOKENS, FakeStages, asked, continuation, layout
from tests.agents.scheduler.two_cores import PREFILL

IMAGES = RowsTaken(position_axes=3, most_held=24)
SOUND = RowsTaken(attended_rows=10, most_held=24)
PROMPT = tuple(range(5, 35))


def stages(shape: PipelineLayout, taken: RowsTaken | None = IMAGES) -> FakeStages:
    core = SchedulerCore(shape, 1000)
    core.share_kv(True)
    core.know_rows(taken)
    return FakeStages(core, shape, attended_rows=0 if taken is None else taken.attended_rows)


def image(
    position: int | None, rows: int = 6, key: str | None = None, grid: tuple[int, int, int] | None = None
) -> PromptRows:
    return PromptRows(TensorAt(f"rows-{position}"), rows, position, grid, key=key and key * 16)


def submit(at: FakeStages, *requests: Generate) -> None:
    for request in requests:
        at.hear(at.core.submit("gw", request, 0.0))


def ended(at: FakeStages, attempt: int) -> Finished | Failed:
    (one,) = at.ended[attempt]
    return one


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 12), st.booleans()), min_size=1, max_size=12),
    st.sampled_from([IMAGES, SOUND]),
    st.randoms(use_true_random=False),
)
def test_no_step_comes_before_its_rows_and_every_request_is_answered(calls, taken, draw) -> None:
    """Rows come in any order among steps; some requests are cancelled while theirs are on their way."""
    at = stages(layout((1.0,), (0.6, 0.4), blocks=24, cap=3), taken)
    for attempt, (length, rows, _) in enumerate(calls):
        prompt = PROMPT[:length]
        own = [image(None, 10)] if taken.attended_rows else [image(length - rows, rows)] if 0 < rows <= length else []
        submit(at, asked(attempt, prompt, 6, given=tuple(own)))
    cancelled = {attempt for attempt, (_, _, is_cancelled) in enumerate(calls) if is_cancelled}
    while at.order() or at.flights or at.taking:
        held = [sum(each.rows for each in (*o.placed, *o.attended)) for o in at.taking.values()]
        assert len(held) <= 1 or sum(held) <= taken.most_held
        if at.taking and (not at.flights or draw.random() < 0.5):
            if cancelled and draw.random() < 0.5:
                at.core.cancel("gw", cancelled.pop())
            else:
                at.bring(draw.choice(sorted(at.taking)))
        elif at.flights:
            at.report(draw.choice(sorted(at.flights)))
    for attempt, (length, _, _) in enumerate(calls):
        if attempt in at.ended:
            assert isinstance(ended(at, attempt), Finished)
            assert at.tokens[attempt] == continuation(PROMPT[:length], 6)
    assert at.core.status.kv_blocks_free == 24
    assert not at.cached


def test_only_the_first_stage_takes_rows_of_tokens_and_all_take_what_is_attended_to() -> None:
    for taken, given_rows, taking in ((IMAGES, image(4), {0}), (SOUND, image(None, 10), {0, 1, 2})):
        at = stages(layout((1.0,), (1.0,), (1.0,)), taken)
        submit(at, asked(1, PROMPT, given=(given_rows,)))
        at.run_dry()
        (order,) = at.taken
        assert order.taking_stages == taking
        assert isinstance(ended(at, 1), Finished)


def test_blocks_are_shared_by_content_and_rows_behind_them_alone_are_taken() -> None:
    at = stages(layout((1.0,), chunk=64))
    first, other = (image(2, 6, "a"), image(20, 5, "b")), (image(2, 6, "a"), image(20, 5, "c"))
    known = {}
    for attempt, rows in enumerate((first, first, other, (image(2, 6, "d"), image(20, 5, "b")), (image(2), image(20)))):
        submit(at, asked(attempt, PROMPT, 3, given=rows))
        at.run_dry()
        known[attempt] = ended(at, attempt).cached_prompt_tokens
    before_the_second = 20 // BLOCK_TOKENS * BLOCK_TOKENS
    most = (len(PROMPT) - 1) // BLOCK_TOKENS * BLOCK_TOKENS
    assert known == {0: 0, 1: most, 2: before_the_second, 3: 0, 4: 0}
    assert [len(order.placed) for order in at.taken] == [2, 0, 1, 2, 2]
    submit(at, asked(9, PROMPT, 3))
    at.run_dry()
    assert ended(at, 9).cached_prompt_tokens == 0, "the same tokens as text"


def test_rows_that_cannot_be_had_cost_one_request() -> None:
    at = stages(layout((1.0,)))
    submit(at, asked(1, PROMPT, given=(image(3),)), asked(2, PROMPT, given=(image(5),)), asked(3, PROMPT))
    at.order()
    lost = next(order.run for order in at.taken if order.placed[0].position == 3)
    at.hear(at.core.lack_rows(lost, Failure.HAND_OFF, "gone"))
    at.run_dry()
    assert ended(at, 1) == Failed(1, Failure.HAND_OFF, "gone")
    assert all(isinstance(ended(at, attempt), Finished) for attempt in (2, 3))


def test_a_request_that_gave_up_its_cache_takes_its_rows_again() -> None:
    at = stages(layout((1.0,), blocks=16))
    submit(at, asked(1, PROMPT[:20], 30), asked(2, PROMPT[:20], 12, given=(image(3),)))
    at.run_dry()
    assert at.core.tally.preemptions > 0
    assert len(at.taken) == 1 + at.core.tally.preemptions
    assert at.tokens[2] == continuation(PROMPT[:20], 12)


@pytest.mark.parametrize(
    ("taken", "rows"),
    [
        (None, (image(3),)),
        (IMAGES, (image(28),)),  # beyond the prompt
        (IMAGES, (image(3), image(8))),  # they overlap
        (IMAGES, (image(12), image(3))),  # not in order
        (IMAGES, (image(3, 6, grid=(1, 2, 2)),)),  # other places than rows
        (RowsTaken(), (image(3, 6, grid=(1, 2, 3)),)),  # tokens of one position
        (IMAGES, (image(None),)),  # it attends to nothing
        (SOUND, ()),
        (SOUND, (image(None, 9),)),
        (SOUND, (image(None, 10), image(None, 10))),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_a_stage_sees_them(
    taken: RowsTaken | None, rows: tuple[PromptRows, ...]
) -> None:
    at = stages(layout((1.0,)), taken)
    submit(at, asked(1, PROMPT, given=rows))
    assert ended(at, 1).failure is Failure.UNSUPPORTED
    assert not at.core.next_orders()


def test_requests_that_came_while_stages_loaded_are_refused_once_these_say_what_they_take() -> None:
    shape = layout((1.0,))
    at = FakeStages(SchedulerCore(shape, 1000), shape)
    submit(at, asked(1, PROMPT, given=(image(3),)), asked(2, PROMPT))
    at.hear(at.core.know_rows(None))
    at.run_dry()
    assert ended(at, 1).failure is Failure.UNSUPPORTED
    assert isinstance(ended(at, 2), Finished)


def test_kv_blocks_of_attended_rows_count() -> None:
    at = stages(layout((1.0,), blocks=12), SOUND)
    sound = (image(None, 10),)  # three blocks
    submit(at, asked(1, PROMPT, 8, given=sound), asked(2, PROMPT, 7, given=sound))
    assert ended(at, 1).failure is Failure.TOO_LONG
    at.run_dry()
    assert isinstance(ended(at, 2), Finished)


def test_a_decode_leg_waits_for_its_kv_cache_and_what_it_attends_to_and_takes_no_rows_of_its_prompt() -> None:
    for taken, rows in ((IMAGES, image(4)), (SOUND, image(None, 10))):
        at = stages(layout((1.0,)), taken)
        peer = OtherLeg("prefill", "tcp://p:1", PREFILL, "h")
        submit(at, asked(1, PROMPT, 5, leg=Leg.DECODE, peer=peer, given=(rows,)))
        token = continuation(PROMPT, 1)[0]
        at.tokens[1] = [token]
        at.hear(at.core.hear_source(PREFILL, Offer("h", len(PROMPT), token)))
        at.order()
        (order,) = at.taken
        at.core.arrive(order.run, 0, 0, 100)
        at.cached[order.run] = list(PROMPT)
        at.coming.pop(order.run)
        assert order.placed == ()
        if taken is SOUND:
            assert not at.order(), "it lacks what it attends to"
            at.bring(order.run)
        at.run_dry()
        assert at.tokens[1] == continuation(PROMPT, 5)
