"""Prompts whose state is wanted, among requests for tokens, over stages that check every order."""

import pytest

from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason
from agents.messages.to_scheduler import Leg, Pooling
from agents.scheduler.core import SchedulerCore
from agents.scheduler.flight import BadResultError, Pooled, Sampled
from tests.agents.scheduler.fake_stages import FakeStages, asked, continuation, layout

LONG = tuple(range(30))


def stages(shares: bool = False, **shape: int) -> FakeStages:
    made = layout((1.0,), (0.5, 0.5), **shape)
    core = SchedulerCore(made, 100)
    core.share_kv(shares)
    return FakeStages(core, made)


def submit(at: FakeStages, *requests) -> None:
    for request in requests:
        at.hear(at.core.submit("gw", request, 0.0))


def state(at: FakeStages, attempt: int) -> bytes:
    (ended,) = at.ended[attempt]
    assert isinstance(ended, Finished)
    assert (ended.reason, ended.output_tokens) == (FinishReason.STOP, 0)
    return ended.state


def test_states_come_once_the_whole_prompt_is_computed_beside_answers_in_tokens() -> None:
    at = stages(chunk=8)
    submit(at, asked(1, LONG, 1, pooling=Pooling.LAST), asked(2, LONG[:5], 6), asked(3, (7,), 1, pooling=Pooling.MEAN))
    at.run_dry()
    assert (state(at, 1), state(at, 3)) == (bytes(LONG), bytes((7,)))
    assert at.tokens[2] == continuation(LONG[:5], 6)
    assert 1 not in at.tokens
    assert at.core.status.kv_blocks_free == at.core.status.kv_blocks
    assert not at.places


@pytest.mark.parametrize(("pooling", "found"), [(Pooling.LAST, 28), (Pooling.MEAN, 0)])
def test_known_blocks_are_shared_unless_all_tokens_count(pooling: Pooling, found: int) -> None:
    at = stages(shares=True)
    for attempt in (1, 2):
        submit(at, asked(attempt, LONG, 1, pooling=pooling))
        at.run_dry()
        assert state(at, attempt) == bytes(LONG)
    assert at.core.tally.found_tokens == found


def test_a_prompt_that_gives_up_its_blocks_is_computed_again() -> None:
    at = stages(blocks=20)
    submit(at, asked(1, LONG[:8], 60), asked(2, LONG[:8], 60), asked(3, LONG, 1, pooling=Pooling.MEAN))
    at.run_dry()
    assert state(at, 3) == bytes(LONG)
    assert [len(at.tokens[n]) for n in (1, 2)] == [60, 60]


@pytest.mark.parametrize(
    ("pooling", "result"), [(Pooling.LAST, Sampled((5,))), (Pooling.LAST, None), (None, Pooled(b"state"))]
)
def test_a_worker_that_gives_something_else_than_asked_is_not_trusted(
    pooling: Pooling | None, result: Sampled | Pooled | None
) -> None:
    at = stages()
    submit(at, asked(1, (1, 2), 1, pooling=pooling))
    (step,) = at.core.next_orders()
    (entry,) = step.entries
    with pytest.raises(BadResultError):
        at.core.record(step.number, entry.nodes[-1], {} if result is None else {entry.run: result})


@pytest.mark.parametrize("options", [{"generated": (4,)}, {"leg": Leg.PREFILL}])
def test_a_state_is_no_prefill_and_has_no_output_behind_it(options: dict) -> None:
    at = stages()
    submit(at, asked(1, (1, 2), 8, pooling=Pooling.LAST, **options))
    (refused,) = at.ended[1]
    assert isinstance(refused, Failed)
    assert refused.failure in (Failure.UNSUPPORTED, Failure.HAND_OFF)
