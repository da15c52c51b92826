"""The echo scheduler keeps the whole protocol: order, limits, drains, cancels, and what it holds for whom."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from agents.channels.keys import KeyPair
from agents.echo.given_rows import GivenRowsError, GivenRowsTaker
from agents.echo.scheduler import EchoScheduler, EchoSettings
from agents.messages.component_work import PromptRows, TensorAt
from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason, SchedulerState, Status, Tokens
from agents.messages.to_scheduler import AskStatus, Cancel, Drain, Generate, Leg, OtherLeg, Sampling
from tests.agents.channels.channel_ends import FAST, PATIENCE_S, Ends, Seen


class At:
    """A scheduler, and a gateway's end of the channel to it."""

    def __init__(self, ends: Ends, settings: EchoSettings, rows: GivenRowsTaker | None) -> None:
        allowed = {ends.client.public: "gateway-1"}
        keys = KeyPair.generate()
        self.scheduler = EchoScheduler("tcp://127.0.0.1:0", keys, allowed, settings, FAST, rows)
        ends.opened.append(self.scheduler)
        self.seen = Seen()
        self.dialer = ends.dial(self.scheduler.endpoint, self.seen, server_key=keys.public)

    def tokens(self, attempt: int) -> list[int]:
        """In order; a repeat or a gap fails."""
        runs = [run for message in self.of(Tokens) for run in message.runs if run.attempt == attempt]
        for one, next_one in pairwise(runs):
            assert next_one.seq == one.seq + len(one.ids)
        return [token for run in runs for token in run.ids]

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.seen.messages if isinstance(message, kind)]

    async def until(self, condition: Callable[[], Any]) -> None:
        await self.seen.until(condition)


def run(
    scenario: Callable[[At], Any], settings: EchoSettings | None = None, rows: GivenRowsTaker | None = None
) -> None:
    async def main() -> None:
        async with Ends() as ends:
            at = At(ends, settings or EchoSettings(), rows)
            await at.dialer.wait_up(PATIENCE_S)
            await at.until(lambda: at.of(Status))
            await scenario(at)

    asyncio.run(main())


def asked(attempt: int, prompt: tuple[int, ...] = (5, 6, 7), max_tokens: int = 8, **options: Any) -> Generate:
    sampling = Sampling(0.0, 1.0, 0, 0, options.pop("top_logprobs", None))
    stop_ids = options.pop("stop_ids", ())
    generated = options.pop("generated", ())
    return Generate(attempt, f"r{attempt}", "m", prompt, generated, max_tokens, stop_ids, sampling, 10.0, **options)


def test_the_output_is_the_prompt_over_and_over_and_goes_on_where_it_stopped():
    async def scenario(at: At) -> None:
        at.dialer.send(asked(1))
        at.dialer.send(asked(2, generated=(5, 6, 7, 5)))
        await at.until(lambda: len(at.of(Finished)) == 2)
        assert at.tokens(1) == [5, 6, 7, 5, 6, 7, 5, 6]
        assert at.tokens(2) == [6, 7, 5, 6]
        assert {f.output_tokens for f in at.of(Finished)} == {8}

    run(scenario)


def test_a_stop_token_ends_it_and_is_not_sent():
    async def scenario(at: At) -> None:
        at.dialer.send(asked(1, stop_ids=(7,)))
        await at.until(lambda: at.of(Finished))
        assert at.tokens(1) == [5, 6]
        assert at.of(Finished) == [Finished(1, FinishReason.STOP, 2)]

    run(scenario, EchoSettings(tokens_per_step=5))


def test_legs_divide_the_output_between_them():
    async def scenario(at: At) -> None:
        at.dialer.send(asked(1, leg=Leg.PREFILL))
        at.dialer.send(asked(2, leg=Leg.DECODE))
        await at.until(lambda: len(at.of(Finished)) == 2)
        assert at.tokens(1) == [5]
        assert at.tokens(2) == [6, 7, 5, 6, 7, 5, 6]
        assert Finished(1, FinishReason.HANDED_OFF, 1) in at.of(Finished)

    run(scenario)


def test_a_leg_that_gives_its_result_to_others_is_done_before_a_cancel_that_follows_it():
    async def scenario(at: At) -> None:
        other = OtherLeg("next", at.scheduler.endpoint, KeyPair.generate().public, "hand-off")
        for attempt in (1, 3):
            at.dialer.send(asked(attempt, sends_to=(other,)))
            at.dialer.send(Cancel(attempt))
        await at.until(lambda: len(at.of(Finished)) == 2)
        assert at.of(Finished) == [Finished(attempt, FinishReason.HANDED_OFF, 0) for attempt in (1, 3)]
        assert at.of(Tokens) == []
        at.dialer.send(AskStatus())
        await at.until(lambda: at.of(Status)[-1].places == at.scheduler.status.places > 0)

    run(scenario)


def test_log_probabilities_come_with_each_token_when_asked_for():
    async def scenario(at: At) -> None:
        at.dialer.send(asked(1, top_logprobs=1, max_tokens=3))
        await at.until(lambda: at.of(Finished))
        entries = [entry for message in at.of(Tokens) for run in message.runs for entry in run.logprobs]
        assert [entry.top for entry in entries] == [((5, 0.0),), ((6, 0.0),), ((7, 0.0),)]

    run(scenario)


def test_draining_finishes_what_is_held_takes_nothing_new_and_says_when_it_is_empty():
    async def scenario(at: At) -> None:
        at.dialer.send(asked(1, max_tokens=200))
        await at.until(lambda: at.of(Tokens))
        at.dialer.send(Drain())
        at.dialer.send(asked(2))
        await at.until(lambda: at.of(Finished) and at.of(Failed))
        assert at.of(Failed)[0].failure is Failure.DRAINING
        assert len(at.tokens(1)) == 200
        await at.until(lambda: at.of(Status)[-1].running == 0)
        assert at.of(Status)[-1].state is SchedulerState.DRAINING

    run(scenario, EchoSettings(step_s=0.001))


def test_what_does_not_fit_waits_what_never_fits_fails_and_a_full_queue_refuses():
    settings = EchoSettings(kv_blocks=10, block_tokens=4, max_waiting=2, step_s=0.001)

    async def scenario(at: At) -> None:
        for attempt in range(1, 5):
            at.dialer.send(asked(attempt, max_tokens=29))  # 8 of 10 blocks: one at a time
        at.dialer.send(asked(9, max_tokens=40))
        await at.until(lambda: len(at.of(Finished)) + len(at.of(Failed)) == 5)
        reasons = {failed.attempt: failed.failure for failed in at.of(Failed)}
        assert reasons.pop(9) is Failure.TOO_LONG
        assert set(reasons.values()) == {Failure.OVERLOADED}
        assert [f.attempt for f in at.of(Finished)] == sorted(set(range(1, 5)) - set(reasons))
        assert at.scheduler.status.kv_blocks_free == 10

    run(scenario, settings)


def test_a_cancel_and_a_gateway_that_leaves_free_what_was_held():
    async def scenario(at: At) -> None:
        for attempt in (1, 2, 3):
            at.dialer.send(asked(attempt, max_tokens=100_000))
        await at.until(lambda: at.tokens(3))
        at.dialer.send(Cancel(1))
        at.dialer.send(Cancel(77))
        at.dialer.send(AskStatus())
        await at.until(lambda: at.of(Status)[-1].running == 2)
        at.dialer.close()
        at.scheduler._gateways._listener.drop(at.scheduler._gateways._listener.peers[0], "gone")
        assert at.scheduler.status.running == 0
        assert at.scheduler.status.kv_blocks_free == at.scheduler.status.kv_blocks

    run(scenario, EchoSettings(step_s=0.001))


@pytest.mark.parametrize("failure", list(Failure))
def test_it_fails_when_told_to_and_keeps_what_it_was_asked(failure: Failure):
    async def scenario(at: At) -> None:
        at.scheduler.fail_next.append(failure)
        at.dialer.send(asked(1))
        at.dialer.send(asked(2))
        await at.until(lambda: at.of(Failed) and at.of(Finished))
        assert at.of(Failed) == [Failed(1, failure, "told to fail")]
        assert list(at.scheduler.calls) == [asked(1), asked(2)]

    run(scenario)


class RowsThatAreAwaited(GivenRowsTaker):
    """Rows that come, or turn out to be lost, when the test says so."""

    def __init__(self) -> None:
        super().__init__("medley-test-none")
        self.come, self.lost = asyncio.Event(), set[int]()

    async def take(self, request: Generate) -> None:
        await self.come.wait()
        if request.attempt in self.lost:
            raise GivenRowsError("their sidecar is gone")


def test_requests_that_wait_for_their_rows_count_towards_the_limit_and_a_drain_waits_for_them():
    rows = RowsThatAreAwaited()
    given = (PromptRows(TensorAt("rows"), 1),)

    async def scenario(at: At) -> None:
        for attempt in (1, 2, 3):
            at.dialer.send(asked(attempt, given=given))
        await at.until(lambda: at.of(Failed))
        assert [(f.attempt, f.failure) for f in at.of(Failed)] == [(3, Failure.OVERLOADED)]
        at.dialer.send(Drain())
        await at.until(lambda: at.of(Status)[-1].state is SchedulerState.DRAINING)
        assert (at.of(Status)[-1].waiting, at.of(Status)[-1].room) == (2, 0)
        rows.lost.add(2)
        rows.come.set()
        await at.until(lambda: at.of(Finished) and len(at.of(Failed)) == 2)
        assert at.of(Failed)[-1].failure is Failure.HAND_OFF
        await at.until(lambda: at.of(Status)[-1].waiting + at.of(Status)[-1].running == 0)
        assert at.scheduler.status.room == 2

    run(scenario, EchoSettings(max_waiting=2), rows)
