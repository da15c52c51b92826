"""Prompts are bound to instances whose KV cache has room for them, and wait in the gateway for it."""

import asyncio
from dataclasses import replace
from pathlib import Path

from agents.echo.scheduler import EchoSettings
from agents.echo.sequence import echo_token
from agents.messages.to_gateway import FinishReason
from bench.text_tables import DECODE, PREFILL, member
from control.gateway.call import Call
from control.gateway.dispatcher import Dispatcher
from tests.control.gateway.echo_fleet import EchoFleet, echo_fleet, ended, first_token_s, slack_model, takes, whole

PROMPT, ANSWER = 100, 40
SMALL = EchoSettings(step_s=0.002, kv_blocks=15, block_tokens=16)
"""Room for one prompt with its answer and half another."""


async def started(fleet: EchoFleet, dispatcher: Dispatcher, count: int) -> list[Call]:
    calls = [fleet.call(ANSWER, prompt=PROMPT) for _ in range(count)]
    for call in calls:
        dispatcher.start(call)
    return calls


def assert_whole(call: Call) -> None:
    assert call.end is FinishReason.LENGTH, call.end
    assert call.generated == [echo_token(call.asked.prompt, n) for n in range(ANSWER)]


def test_who_has_no_room_for_a_prompt_is_passed_over_for_who_has_however_cheap_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, cheap=SMALL, dear=EchoSettings(step_s=0.002)) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, slack_model(whole("cheap", 0.0, 1.0), whole("dear", 0.001, 9.0)))
            await fleet.usable(dispatcher)
            calls = await started(fleet, dispatcher, 4)
            for call in calls:
                assert_whole(await ended(call))
            assert [call.served_by for call in calls] == [[("cheap",)], [("cheap",)], *[[("dear",)]] * 2]

    asyncio.run(scenario())


def test_prompts_wait_in_the_gateway_for_room_at_prefill_and_follow_as_soon_as_others_have_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, p=SMALL, d=EchoSettings(step_s=0.002)) as fleet:
            dispatcher = fleet.dispatcher()
            p, d = member("m", "p", "z", PREFILL), member("m", "d", "z", DECODE)
            fleet.publish(dispatcher, slack_model(replace(p, times=takes(0.0), usd_per_hour=1.0), d))
            await fleet.usable(dispatcher)
            calls = await started(fleet, dispatcher, 30)
            await first_token_s(calls[0])
            assert len(dispatcher._queues.by_model["m"]) >= 25
            for call in calls:
                assert_whole(await ended(call))
                assert len(call.served_by) == 1
            await all_given_back(dispatcher, "p", 15 * 16)

    asyncio.run(scenario())


def test_calls_that_are_cancelled_give_their_room_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, one=replace(SMALL, step_s=0.02)) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, slack_model(whole("one", 0.0)))
            await fleet.usable(dispatcher)
            calls = await started(fleet, dispatcher, 6)
            await first_token_s(calls[0])
            for call in calls[:4]:
                dispatcher.cancel(call)
            for call in calls[4:]:
                assert_whole(await ended(call))
            await all_given_back(dispatcher, "one", 15 * 16)

    asyncio.run(scenario())


async def all_given_back(dispatcher: Dispatcher, name: str, tokens: int) -> None:
    """Wait until the gateway knows again of all the room that there is: the next heartbeat says it at the latest."""
    async with asyncio.timeout(10):
        while dispatcher._links[name].tokens.left != tokens:
            await asyncio.sleep(0.001)
