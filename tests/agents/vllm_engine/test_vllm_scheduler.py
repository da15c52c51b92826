"""What the scheduler of a vLLM instance does when its engine is slow to come, hangs or breaks. Needs no vLLM."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from agents.channels.keys import KeyPair
from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason, SchedulerState, Status, Tokens
from agents.messages.to_scheduler import Cancel, Generate, Pooling, Sampling
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.scheduler.settings import SchedulerSettings
from agents.vllm_engine import scheduler as scheduler_module
from agents.vllm_engine.scheduler import VllmScheduler
from tests.agents.channels.channel_ends import FAST, PATIENCE_S, Ends, Seen
from tests.agents.vllm_engine.counting_engine import BLOCKS, Counting


@dataclass
class At:
    scheduler: VllmScheduler
    engine: Counting
    loading: threading.Event
    seen: Seen
    dialer: Any

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.seen.messages if isinstance(message, kind)]

    def ends(self) -> dict[int, Finished | Failed]:
        return {message.attempt: message for message in (*self.of(Finished), *self.of(Failed))}

    def status(self) -> Status | None:
        return next(reversed(self.of(Status)), None)

    def tokens(self, attempt: int) -> list[int]:
        """In order; a repeat or a gap fails."""
        runs = [run for message in self.of(Tokens) for run in message.runs if run.attempt == attempt]
        for one, next_one in pairwise(runs):
            assert next_one.seq == one.seq + len(one.ids)
        return [token for run in runs for token in run.ids]


def run(scenario: Callable[[At], Coroutine[Any, Any, None]], max_waiting: int = 100) -> None:
    async def main() -> None:
        async with Ends() as ends:
            engine, loading, keys, seen = Counting(), threading.Event(), KeyPair.generate(), Seen()
            engine.gate.set()

            def load() -> Counting:
                loading.wait()
                return engine

            node = NodeLimits("n", 1.0, 8, 32, BLOCKS)
            layout = PipelineLayout("m", ((node,),), 16, 128, 100)
            settings = SchedulerSettings(max_waiting, channel=FAST)
            gateways = {ends.client.public: "gateway"}
            scheduler = VllmScheduler("tcp://127.0.0.1:0", keys, gateways, layout, load, settings)
            dialer = ends.dial(scheduler.endpoint, seen, server_key=keys.public)
            try:
                await dialer.wait_up(PATIENCE_S)
                await scenario(At(scheduler, engine, loading, seen, dialer))
            finally:
                loading.set()
                engine.gate.set()
                await scheduler.stop()

    asyncio.run(main())


def asked(attempt: int, tokens: int = 6, **options: Any) -> Generate:
    told = {"prompt": (1, 2, 3), "generated": (), "stop_ids": (), "deadline_s": 600.0, **options}
    return Generate(attempt, "r", "m", max_tokens=tokens, sampling=Sampling(0.0, 1.0, 0, 0), **told)


def test_requests_wait_for_an_engine_that_loads_and_go_on_behind_what_was_sent() -> None:
    async def scenario(at: At) -> None:
        at.dialer.send(asked(1))
        at.dialer.send(asked(2, generated=(3, 4)))
        at.dialer.send(asked(3, stop_ids=(5,)))
        at.dialer.send(asked(4, tokens=2, generated=(3, 4)))
        await at.seen.until(lambda: (status := at.status()) and status.waiting == 3)
        assert at.status().state is SchedulerState.LOADING
        at.loading.set()
        await at.seen.until(lambda: len(at.ends()) == 4)
        assert at.tokens(1) == [3, 4, 5, 6, 7, 8]
        assert at.tokens(2) == [5, 6, 7, 8]
        assert at.tokens(3) == [3, 4]
        assert at.ends()[2] == Finished(2, FinishReason.LENGTH, 6, 3)
        assert at.ends()[3] == Finished(3, FinishReason.STOP, 2, 3)
        assert at.ends()[4] == Finished(4, FinishReason.LENGTH, 2)
        idle = Status(SchedulerState.READY, 0, 0, BLOCKS, BLOCKS, room=100, obeys_rules=True, others_units=0)
        idle = msgspec.structs.replace(idle, prompt_tokens_free=16 * BLOCKS)
        await at.seen.until(lambda: msgspec.structs.replace(at.status(), places=None, is_shared=False) == idle)

    run(scenario)


def test_a_step_that_never_ends_fails_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "STEP_TIMEOUT_S", 0.1)

    async def scenario(at: At) -> None:
        at.loading.set()
        at.engine.gate.clear()
        at.dialer.send(asked(1))
        await at.seen.until(at.ends)
        assert at.ends()[1].failure is Failure.ENGINE
        assert at.scheduler.over.is_set()
        at.dialer.send(asked(2))
        await at.seen.until(lambda: len(at.ends()) == 2)
        assert at.ends()[2].failure is Failure.ENGINE

    run(scenario)


def test_an_engine_that_breaks_fails_what_is_held_with_its_reason() -> None:
    async def scenario(at: At) -> None:
        at.engine.error = RuntimeError("out of memory")
        at.dialer.send(asked(1))
        at.loading.set()
        await at.seen.until(at.ends)
        assert at.ends()[1] == Failed(1, Failure.ENGINE, "RuntimeError: out of memory")
        assert at.scheduler.failure == "RuntimeError: out of memory"

    run(scenario)


def test_refusals_of_the_engine_and_a_full_queue_cost_nobody_else_anything() -> None:
    async def scenario(at: At) -> None:
        for attempt in (1, 2, 3):
            at.dialer.send(asked(attempt, prompt=(1, 99) if attempt == 1 else (1, 2, 3)))
        await at.seen.until(at.ends)
        assert at.ends()[3].failure is Failure.OVERLOADED
        at.dialer.send(Cancel(2))
        await at.seen.until(lambda: (status := at.status()) and status.waiting == 1)
        at.dialer.send(asked(4))
        await at.seen.until(lambda: (status := at.status()) and status.waiting == 2)
        at.loading.set()
        await at.seen.until(lambda: len(at.ends()) == 3)
        assert at.ends()[1] == Failed(1, Failure.UNSUPPORTED, "99 is no token")
        at.dialer.send(asked(5, pooling=Pooling.LAST))
        await at.seen.until(lambda: 5 in at.ends())
        assert at.ends()[5].failure is Failure.UNSUPPORTED
        assert not at.status().pools
        assert at.tokens(4) == [3, 4, 5, 6, 7, 8]
        assert 2 not in at.ends()

    run(scenario, max_waiting=2)
