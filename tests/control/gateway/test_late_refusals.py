"""Requests that no instance can begin in time are refused where the objective says so (`slo.late: refuse`)."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from openai import InternalServerError

from agents.echo.scheduler import EchoSettings
from agents.messages.to_gateway import FinishReason
from bench.text_tables import DECODE, PREFILL, WHOLE, member, text_model
from control.gateway.api_error import LATE_REFUSED, ApiError
from control.gateway.call import Call
from policies.routing_table import RoutedModel
from templates_lib.values.slo import Slo
from tests.control.gateway.echo_fleet import echo_fleet, ended, first_token_s, slack_model, takes, whole
from tests.control.gateway.test_objectives import judged
from tests.control.gateway.test_slack_queue import assert_whole, nothing_waits
from tests.control.gateway.world import MODEL, World

REFUSING = Slo(400.0, 1e3, refuses_late=True)
SLOW = EchoSettings(max_running=1, step_s=0.02, tokens_per_step=1)
"""An answer of three tokens takes 40 ms, and nothing else meanwhile."""


def is_refused(call: Call) -> bool:
    return isinstance(call.end, ApiError) and call.end.code == LATE_REFUSED


def test_of_more_than_can_be_kept_the_rest_is_refused_and_what_is_served_is_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        objective, slow = replace(REFUSING, ttft_ms=2000.0), replace(SLOW, step_s=0.1)
        late_s = 5.0  # the objective, and what a busy machine takes
        with echo_fleet(tmp_path, one=slow) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, slack_model(whole("one", 0.25), objective=objective))
            await fleet.usable(dispatcher)
            calls = [fleet.call(3) for _ in range(60)]
            for call in calls:
                dispatcher.start(call)
            loop, first_s = asyncio.get_running_loop(), dict[Call, float]()

            async def watch(call: Call) -> None:
                await call.news()
                first_s[call] = loop.time() - call.asked.arrived_s

            await asyncio.gather(*map(watch, calls))
            served = [call for call in calls if not is_refused(await ended(call))]
            for call in served:
                assert_whole(call)
                assert first_s[call] <= late_s
            assert 2 <= len(served) <= 20
            for call in calls:
                if is_refused(call):
                    assert not call.generated
                    assert first_s[call] <= late_s
                    assert isinstance(call.end, ApiError)
                    assert call.end.status == 503
                    assert [name for name, _ in call.end.headers] == [b"retry-after"]
            counted = dispatcher._metrics.late_refusals.labels("m")._value.get()
            assert counted == len(calls) - len(served)
            assert nothing_waits(dispatcher)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "model",
    [
        slack_model(whole("one", 0.05), objective=replace(REFUSING, refuses_late=False)),
        replace(slack_model(whole("one", 0.05), objective=REFUSING), policy="wrr-v1"),
        slack_model(whole("one", 0.05)),
    ],
    ids=["serve", "in turns", "no objective"],
)
def test_nothing_is_refused_where_that_is_not_asked_for(tmp_path: Path, model: RoutedModel) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, one=SLOW) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, model)
            await fleet.usable(dispatcher)
            calls = [fleet.call(3) for _ in range(24)]
            for call in calls:
                dispatcher.start(call)
            for call in calls:
                assert_whole(await ended(call))

    asyncio.run(scenario())


def test_who_waits_for_an_instance_to_start_is_served_also_when_the_table_is_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, one=EchoSettings()) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.schedulers["one"].close()
            model = slack_model(whole("one", 0.05), objective=replace(REFUSING, ttft_ms=100.0))
            fleet.publish(dispatcher, model)
            calls = [fleet.call(8) for _ in range(3)]
            for call in calls:
                dispatcher.start(call)
            await asyncio.sleep(0.3)
            fleet.start("one")
            await fleet.usable(dispatcher)
            fleet.publish(dispatcher, model)
            for call in calls:
                assert_whole(await ended(call))

    asyncio.run(scenario())


def test_whose_client_has_a_token_is_gone_on_with_however_late(tmp_path: Path) -> None:
    async def scenario() -> None:
        slow = EchoSettings(max_running=64, step_s=0.02)
        with echo_fleet(tmp_path, first=slow, second=slow) as fleet:
            dispatcher = fleet.dispatcher()
            # Of what goes on elsewhere the prompt alone takes longer than is left: tokens are added to it.
            long = replace(whole("second", 0.05), times=takes(5.0), usd_per_hour=99.0)
            fleet.publish(dispatcher, slack_model(whole("first", 0.05), long, objective=REFUSING))
            await fleet.usable(dispatcher)
            calls = [fleet.call(100) for _ in range(4)]
            for call in calls:
                dispatcher.start(call)
            for call in calls:
                await first_token_s(call)
            fleet.schedulers["first"].close()
            for call in calls:
                assert (await ended(call)).end is FinishReason.LENGTH
            assert nothing_waits(dispatcher)

    asyncio.run(scenario())


@pytest.mark.parametrize("legs", [{"e1": WHOLE}, {"e1": PREFILL, "e2": DECODE}])
def test_a_prompt_that_takes_too_long_alone_is_refused_at_once_and_counts_as_not_kept(
    tmp_path: Path, legs: dict[str, str]
) -> None:
    world = World(tmp_path)
    members = [replace(member(MODEL, name, "z1", leg, 1e9), times=takes(900.0)) for name, leg in legs.items()]
    # Who were not refused at once would wait for longer than the client does.
    objective = Slo(600_000.0, 1e3, refuses_late=True)
    routing = replace(text_model(MODEL, members), policy="slack-v1", objective=objective)
    try:
        for name, leg in legs.items():
            world.echo(name, leg=leg)
        world.model = {"routing": routing}
        world.key = {"requests_per_minute": 2, "tokens_per_minute": 10**6}
        world.publish()
        world.start_gateway()
        world.wait_ready()
        for stream in (False, True, False):  # a refusal costs nothing of the key's limit
            with pytest.raises(InternalServerError) as found:
                world.client().completions.create(model=MODEL, prompt="abcd", max_tokens=8, stream=stream)
            assert (found.value.status_code, found.value.code) == (503, LATE_REFUSED)
            assert int(found.value.response.headers["retry-after"]) >= 1
        work_class = "prefill" if len(legs) == 2 else "aggregated"
        world.wait_for(judged(work_class, "ttft", "false"), 3)
        world.wait_for(f'medley_gateway_late_refusals_total{{model="{MODEL}"}}', 3)
        world.wait_for("medley_gateway_open_calls", 0)
        assert "Traceback" not in world.gateway_log
    finally:
        world.stop()
