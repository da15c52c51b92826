"""Calls that wait in the gateway by slack: who gets them, and that nothing is left when they go."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.echo.scheduler import EchoSettings
from agents.echo.sequence import echo_token
from agents.messages.to_gateway import Failure, FinishReason
from bench.text_tables import DECODE, PREFILL, member
from control.gateway.api_error import ApiError
from control.gateway.call import Call
from control.gateway.dispatcher import Dispatcher
from control.gateway.slack_decision import bind, compile_decisions, join, leave, next_look_s
from policies.routing_table import ZoneFlow
from templates_lib.values.slo import Slo
from tests.control.gateway.echo_fleet import echo_fleet, ended, first_token_s, slack_model, takes, whole


def one_by_one(step_s: float) -> EchoSettings:
    """A scheduler that answers one request after the other."""
    return EchoSettings(max_running=1, step_s=step_s, tokens_per_step=64)


def nothing_waits(dispatcher: Dispatcher) -> bool:
    return (
        not dispatcher._by_call
        and not any(dispatcher._by_link.values())
        and not any(len(queue) for queue in dispatcher._queues.by_model.values())
        and all(link.prompts == 0 for link in dispatcher._links.values())
    )


def assert_whole(call: Call) -> None:
    assert call.end is FinishReason.LENGTH, call.end
    assert call.generated == [echo_token(call.asked.prompt, n) for n in range(call.asked.max_tokens)]


@pytest.mark.parametrize(("policy", "most_late", "least_late"), [("slack-v1", 0, 0), ("wrr-v1", 8, 3)])
def test_unlike_instances_keep_an_objective_together_that_turns_would_miss(
    tmp_path: Path, policy: str, most_late: int, least_late: int
) -> None:
    objective_s, busy_s = 4.0, 2.0
    """The objective, and what a busy machine takes."""

    async def scenario() -> None:
        with echo_fleet(tmp_path, fast=one_by_one(0.02), slow=one_by_one(1.5)) as fleet:
            dispatcher = fleet.dispatcher()
            # By their certified throughput they would get the same.
            model = slack_model(whole("fast", 0.02, 4.0), whole("slow", 1.5), objective=Slo(objective_s * 1e3, 1e3))
            fleet.publish(dispatcher, replace(model, policy=policy))
            await fleet.usable(dispatcher)
            calls = [fleet.call(8) for _ in range(16)]
            for call in calls:
                dispatcher.start(call)
            late = sum(s > objective_s + busy_s for s in await asyncio.gather(*map(first_token_s, calls)))
            assert least_late <= late <= most_late
            for call in calls:
                assert_whole(await ended(call))
            assert nothing_waits(dispatcher)

    asyncio.run(scenario())


def test_calls_that_are_cancelled_while_they_wait_leave_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, one=one_by_one(0.02)) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, slack_model(whole("one", 60.0)))  # so it is given one at a time
            await fleet.usable(dispatcher)
            calls = [fleet.call(64) for _ in range(200)]
            for call in calls:
                dispatcher.start(call)
            await first_token_s(calls[0])
            assert len(dispatcher._queues.by_model["m"]) >= 190
            for call in calls[1:150]:
                dispatcher.cancel(call)
            for call in (calls[0], *calls[150:]):
                assert_whole(await ended(call))
            assert nothing_waits(dispatcher)
            assert len({c.request for c in fleet.schedulers["one"].calls}) <= 61

    asyncio.run(scenario())


def test_an_instance_that_dies_with_calls_bound_gives_them_back_to_the_queue(tmp_path: Path) -> None:
    async def scenario() -> None:
        slow = EchoSettings(max_running=4, step_s=0.02)
        with echo_fleet(tmp_path, first=slow, second=slow) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, slack_model(whole("first", 0.0), whole("second", 0.0)))
            await fleet.usable(dispatcher)
            calls = [fleet.call(40) for _ in range(24)]
            for call in calls:
                dispatcher.start(call)
            await first_token_s(calls[0])
            for name in ("first", "second", "first"):
                fleet.schedulers[name].close()
                await asyncio.sleep(0)
                fleet.start(name)
                await fleet.usable(dispatcher, name)
            for call in calls:
                assert_whole(await ended(call))
            assert nothing_waits(dispatcher)

    asyncio.run(scenario())


def test_an_instance_that_fails_whatever_it_is_given_does_not_get_every_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, bad=EchoSettings(), good=one_by_one(0.005)) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, slack_model(whole("bad", 0.001, 0.1), whole("good", 0.005)))
            await fleet.usable(dispatcher)
            fleet.schedulers["bad"].fail_next.extend([Failure.ENGINE] * 10_000)
            calls = [fleet.call(8) for _ in range(100)]
            for call in calls:
                dispatcher.start(call)
            for call in calls:
                assert_whole(await ended(call))

    asyncio.run(scenario())


def test_without_an_instance_calls_wait_and_then_say_to_come_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, one=EchoSettings()) as fleet:
            dispatcher = fleet.dispatcher(resume_wait_s=0.2)
            fleet.publish(dispatcher, slack_model(whole("one", 0.0)))
            fleet.schedulers["one"].close()
            calls = [fleet.call(8) for _ in range(3)]
            for call in calls:
                dispatcher.start(call)
            for call in calls:
                end = (await ended(call)).end
                assert isinstance(end, ApiError)
                assert end.status == 503
            assert nothing_waits(dispatcher)

    asyncio.run(scenario())


def test_a_table_may_change_the_policy_while_calls_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, one=one_by_one(0.005)) as fleet:
            dispatcher = fleet.dispatcher()
            by_slack = slack_model(whole("one", 60.0), objective=Slo(100.0, 100.0))
            calls = [fleet.call(128) for _ in range(12)]
            fleet.publish(dispatcher, by_slack)
            await fleet.usable(dispatcher)
            for number, call in enumerate(calls):
                dispatcher.start(call)
                await asyncio.sleep(0)
                if number % 4 == 1:
                    fleet.publish(dispatcher, replace(by_slack, policy="wrr-v1"))
                elif number % 4 == 3:
                    fleet.publish(dispatcher, by_slack)
            for call in calls:
                assert_whole(await ended(call))
            assert nothing_waits(dispatcher)

    asyncio.run(scenario())


def test_a_model_with_more_calls_than_it_can_serve_delays_no_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, stuck=one_by_one(0.5), quick=one_by_one(0.0)) as fleet:
            dispatcher = fleet.dispatcher()
            of_a = whole("stuck", 0.5, model="a")
            models = slack_model(of_a, model="a"), slack_model(whole("quick", 0.0, model="b"), model="b")
            fleet.publish(dispatcher, *models)
            await fleet.usable(dispatcher)
            waiting = [fleet.call(64, "a") for _ in range(2000)]
            for call in waiting:
                dispatcher.start(call)
            others = [fleet.call(64, "b") for _ in range(50)]
            for call in others:
                dispatcher.start(call)
            for call in others:
                assert_whole(await ended(call))
            assert len(dispatcher._queues.by_model["a"]) > 1900
            for call in waiting:
                dispatcher.cancel(call)
            assert nothing_waits(dispatcher)

    asyncio.run(scenario())


def test_decode_legs_go_by_the_flows_of_the_plan_and_in_their_zone_to_who_has_least(tmp_path: Path) -> None:
    async def scenario() -> None:
        slow = EchoSettings(step_s=0.05)
        with echo_fleet(tmp_path, p=EchoSettings(), d1=slow, d2=slow, d3=slow) as fleet:
            dispatcher = fleet.dispatcher()
            decodes = [member("m", "d1", "y", DECODE, 300.0), member("m", "d2", "y", DECODE, 100.0)]
            members = [replace(member("m", "p", "z", PREFILL), times=takes(0.0)), *decodes]
            flows = (ZoneFlow(("z", "y"), 2.0), ZoneFlow(("z", "x"), 1.0))
            routed = slack_model(*members, member("m", "d3", "x", DECODE, 100.0))
            routes = tuple(replace(route, flows=flows if len(route.legs) == 2 else ()) for route in routed.routes)
            fleet.publish(dispatcher, replace(routed, routes=routes))
            await fleet.usable(dispatcher)
            calls = [fleet.call(40) for _ in range(60)]
            for call in calls:
                dispatcher.start(call)
            for call in calls:
                assert_whole(await ended(call))
            got = {name: len(fleet.schedulers[name].calls) for name in ("d1", "d2", "d3")}
            assert got == {"d1": 30, "d2": 10, "d3": 20}

    asyncio.run(scenario())


def test_decode_legs_go_to_who_has_room_for_their_kv_cache(tmp_path: Path) -> None:
    """Two are as fast, and one has KV blocks for two of these requests alone."""

    async def scenario() -> None:
        slow = EchoSettings(step_s=0.02)
        with echo_fleet(tmp_path, p=EchoSettings(), small=replace(slow, kv_blocks=2 * 7), large=slow) as fleet:
            dispatcher = fleet.dispatcher()
            decodes = [member("m", name, "z", DECODE, 100.0) for name in ("small", "large")]
            first = replace(member("m", "p", "z", PREFILL), times=takes(0.0))
            fleet.publish(dispatcher, slack_model(first, *decodes))
            await fleet.usable(dispatcher)
            calls = [fleet.call(100) for _ in range(2)]  # with their prompts 7 blocks each
            for call in calls:
                dispatcher.start(call)
            links = [dispatcher._links[name] for name in ("small", "large")]
            async with asyncio.timeout(60):  # one each, and the gateway knows it
                while any(link.status is None or link.status.running != 1 for link in links):
                    await asyncio.sleep(0.001)
            more = [fleet.call(100) for _ in range(8)]
            for call in more:
                dispatcher.start(call)
            for call in (*calls, *more):
                assert_whole(await ended(call))
            assert {name: len(fleet.schedulers[name].calls) for name in ("small", "large")} == {"small": 2, "large": 8}

    asyncio.run(scenario())


def test_a_key_that_floods_the_queue_does_not_hold_up_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, one=one_by_one(0.02)) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, slack_model(whole("one", 0.02), objective=Slo(600_000.0, 1e3)))
            await fleet.usable(dispatcher)
            flood = [fleet.call(8, account=("p", "heavy")) for _ in range(150)]
            for call in flood:
                dispatcher.start(call)
            light = fleet.call(8, account=("p", "light"))
            dispatcher.start(light)
            assert_whole(await ended(light))
            assert sum(call.end is None for call in flood) > 100
            for call in flood:
                assert_whole(await ended(call))

    asyncio.run(scenario())


def test_what_is_observed_of_a_member_corrects_what_its_table_says(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, quick=EchoSettings()) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, slack_model(whole("quick", 30.0)))
            await fleet.usable(dispatcher)
            for _ in range(20):
                call = fleet.call(4)
                dispatcher.start(call)
                assert_whole(await ended(call))
            assert 0.25 <= dispatcher._links["quick"].pace.ratio < 0.3

    asyncio.run(scenario())


def test_decisions_are_compiled_once_whatever_waits_and_whoever_serves(tmp_path: Path) -> None:
    """The event loop never waits for the compiler."""
    compiled: Any = (bind, join, leave, next_look_s)
    compile_decisions()
    before = [list(each.signatures) for each in compiled]

    async def scenario() -> None:
        with echo_fleet(tmp_path, p=EchoSettings(), d=EchoSettings(), w=one_by_one(0.0)) as fleet:
            dispatcher = fleet.dispatcher()
            members = member("m", "p", "z", PREFILL), member("m", "d", "y", DECODE), whole("w", 0.01)
            for objective in (None, Slo(1, 1), Slo(1e3, 1e3, 5.0)):
                fleet.publish(dispatcher, slack_model(*members, objective=objective))
                await fleet.usable(dispatcher)
                calls = [fleet.call(9) for _ in range(100)]
                for call in calls:
                    dispatcher.start(call)
                for call in calls:
                    assert_whole(await ended(call))

    asyncio.run(scenario())
    assert [list(each.signatures) for each in compiled] == before
