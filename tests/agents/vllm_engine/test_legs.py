"""Requests of two legs between the schedulers of two vLLM instances, over real links. The engines count."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from agents.channels.keys import KeyPair
from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason, Status, Tokens
from agents.messages.to_scheduler import Cancel, Generate, Leg, OtherLeg, Sampling
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.scheduler.settings import SchedulerSettings
from agents.vllm_engine.kv_worker import KvWorker
from agents.vllm_engine.scheduler import VllmScheduler
from tests.agents.channels.channel_ends import FAST, PATIENCE_S, Ends, Seen
from tests.agents.vllm_engine.counting_engine import BLOCKS, KV, Keeping

PROMPT = tuple(range(1, 41))
LAYOUT = PipelineLayout("m", ((NodeLimits("n", 1.0, 8, 32, BLOCKS),),), 16, 128, 100)


@dataclass
class Side:
    engine: Keeping
    scheduler: VllmScheduler
    keys: KeyPair
    seen: Seen = field(default_factory=Seen)
    dialer: Any = None

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.seen.messages if isinstance(message, kind)]

    def ends(self) -> dict[int, Finished | Failed]:
        return {message.attempt: message for message in (*self.of(Finished), *self.of(Failed))}

    def tokens(self, attempt: int) -> list[tuple[int, int]]:
        """(position in the output, token)"""
        runs = [run for message in self.of(Tokens) for run in message.runs if run.attempt == attempt]
        return [(run.seq + n, token) for run in runs for n, token in enumerate(run.ids)]

    async def until_idle(self) -> None:
        await self.seen.until(lambda: self._is_idle(self.of(Status)[-1]))

    @staticmethod
    def _is_idle(status: Status) -> bool:
        return (status.running, status.waiting, status.kv_blocks_free) == (0, 0, BLOCKS)


@dataclass
class Pair:
    prefill: Side
    decode: Side

    def ask(self, attempt: int, tokens: int = 6, prompt: tuple[int, ...] = PROMPT, **options: Any) -> None:
        """Both legs. `options`: `prompts` and `deadlines` of either leg, where they differ."""
        prompts, deadlines = options.get("prompts", (prompt, prompt)), options.get("deadlines", (600.0, 600.0))
        sides, legs = (self.prefill, self.decode), (Leg.PREFILL, Leg.DECODE)
        for n, (side, other) in enumerate([sides, sides[::-1]]):
            peer = OtherLeg("other", other.scheduler.status.hand_off, other.keys.public, f"h{attempt}")
            told = (prompts[n], (), tokens, (), Sampling(0.0, 1.0, 0, 0), deadlines[n], legs[n], peer)
            side.dialer.send(Generate(attempt, "r", "m", *told))

    async def until_idle(self) -> None:
        for side in (self.prefill, self.decode):
            await side.until_idle()


def run(scenario: Callable[[Pair], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with Ends() as ends:
            pair = Pair(*(side_of(ends) for _ in range(2)))
            sides = (pair.prefill, pair.decode)
            for side in sides:
                side.dialer = ends.dial(side.scheduler.endpoint, side.seen, server_key=side.keys.public)
                await side.dialer.wait_up(PATIENCE_S)
                side.engine.gate.set()
            try:
                await scenario(pair)
            finally:
                for side in sides:
                    await side.scheduler.stop()

    asyncio.run(main())


def side_of(ends: Ends) -> Side:
    engine, keys = Keeping(), KeyPair.generate()
    engine.room.set()
    scheduler = VllmScheduler(
        "tcp://127.0.0.1:0",
        keys,
        {ends.client.public: "gateway"},
        LAYOUT,
        lambda: engine,
        SchedulerSettings(100, channel=replace(FAST, lost_after_s=PATIENCE_S)),  # a busy machine loses nobody
        make_carrier=KvWorker,
    )
    return Side(engine, scheduler, keys)


def test_what_one_prefills_the_other_goes_on_with() -> None:
    async def scenario(at: Pair) -> None:
        lengths = range(1, 60, 11)
        for n, length in enumerate(lengths):
            at.ask(n, tokens=6, prompt=PROMPT[:1] * length)
        await at.decode.seen.until(lambda: len(at.decode.ends()) == len(lengths))
        for n, length in enumerate(lengths):
            assert at.prefill.tokens(n) == [(0, length)]
            assert at.decode.tokens(n) == [(k, length + k) for k in range(1, 6)]
            assert at.decode.ends()[n] == Finished(n, FinishReason.LENGTH, 6)
        await at.prefill.seen.until(lambda: len(at.prefill.ends()) == len(lengths))
        ends = {n: (end.reason, end.output_tokens) for n, end in at.prefill.ends().items()}
        assert ends == dict.fromkeys(range(len(lengths)), (FinishReason.HANDED_OFF, 1))
        await at.until_idle()
        sent, received = at.prefill.scheduler.done, at.decode.scheduler.done
        a_token = 2 * KV.kv_heads * KV.head_dim * 4
        assert sent.sent_kv_bytes == received.received_kv_bytes == a_token * sum(2 * n + min(n, 4) for n in lengths)
        assert (sent.prompt_tokens, received.prompt_tokens) == (sum(lengths), 0)

    run(scenario)


def test_one_token_alone_is_not_handed_over() -> None:
    async def scenario(at: Pair) -> None:
        at.ask(1, tokens=1)
        await at.prefill.seen.until(at.prefill.ends)
        assert at.prefill.ends()[1].reason is FinishReason.LENGTH
        assert at.prefill.tokens(1) == [(0, len(PROMPT))]
        at.decode.dialer.send(Cancel(1))
        await at.until_idle()

    run(scenario)


def test_what_waits_for_room_holds_nothing_there_and_ends_with_either_leg() -> None:
    async def scenario(at: Pair) -> None:
        at.decode.engine.room.clear()
        for attempt in (1, 2):
            at.ask(attempt)
        await at.prefill.seen.until(lambda: len(at.prefill.of(Tokens)) and at.prefill.tokens(2))
        await at.decode.seen.until(lambda: len(at.decode.engine.waiting) == 2)
        at.prefill.dialer.send(Cancel(1))
        at.decode.dialer.send(Cancel(2))
        await at.decode.seen.until(at.decode.ends)
        assert at.decode.ends()[1].failure is Failure.HAND_OFF
        await at.prefill.seen.until(at.prefill.ends)
        assert at.prefill.ends()[2].failure is Failure.HAND_OFF
        await at.until_idle()
        assert at.decode.scheduler.done.received_kv_bytes == 0

    run(scenario)


def test_a_deadline_on_either_side_ends_it_on_both() -> None:
    async def scenario(at: Pair) -> None:
        at.decode.engine.room.clear()
        at.ask(1, deadlines=(0.2, 600.0))
        at.ask(2, deadlines=(600.0, 0.2))
        await at.prefill.seen.until(lambda: len(at.prefill.ends()) == 2)
        await at.decode.seen.until(lambda: len(at.decode.ends()) == 2)
        assert [at.prefill.ends()[n].failure for n in (1, 2)] == [Failure.DEADLINE, Failure.HAND_OFF]
        assert [at.decode.ends()[n].failure for n in (1, 2)] == [Failure.HAND_OFF, Failure.DEADLINE]
        await at.until_idle()

    run(scenario)


def test_an_offer_of_another_prompt_is_declined() -> None:
    async def scenario(at: Pair) -> None:
        at.ask(1, prompts=(PROMPT, PROMPT[1:]))
        for side in (at.prefill, at.decode):
            await side.seen.until(side.ends)
            assert side.ends()[1].failure is Failure.HAND_OFF
        await at.until_idle()

    run(scenario)


def test_an_engine_that_breaks_ends_it_at_the_other_instance_too() -> None:
    async def scenario(at: Pair) -> None:
        at.decode.engine.room.clear()
        at.ask(1)
        await at.prefill.seen.until(lambda: at.prefill.tokens(1))
        await at.decode.seen.until(lambda: at.decode.engine.waiting)
        at.decode.scheduler.broke(RuntimeError("out of memory"))
        await at.prefill.seen.until(at.prefill.ends)
        assert at.prefill.ends()[1].failure is Failure.HAND_OFF
        assert at.decode.scheduler.over.is_set()
        await at.prefill.until_idle()

    run(scenario)


def test_an_engine_that_hands_nothing_over_says_why() -> None:
    async def scenario(at: Pair) -> None:
        reason = "vLLM in 2 processes hands no KV cache over yet"
        at.decode.scheduler._legs.loaded(reason)
        at.ask(1)
        await at.decode.seen.until(at.decode.ends)
        assert at.decode.ends()[1] == Failed(1, Failure.HAND_OFF, reason)

    run(scenario)
