"""Priorities of requests at the gateway: of a key, lowered by `service_tier`, and who goes first."""

import asyncio
from pathlib import Path

import pytest
from openai import BadRequestError

from bench.text_tables import WHOLE
from control.gateway.service_tier import ServiceTier, granted_priority, tier_of
from policies.priority import Priority
from templates_lib.values.slo import Slo
from tests.control.gateway.echo_fleet import echo_fleet, ended, slack_model, whole
from tests.control.gateway.test_late_refusals import SLOW
from tests.control.gateway.test_slack_queue import assert_whole, nothing_waits
from tests.control.gateway.world import MODEL, World


@pytest.mark.parametrize(
    ("asked", "ceiling", "granted"),
    [
        (None, Priority.BATCH, Priority.BATCH),
        ("auto", Priority.INTERACTIVE, Priority.INTERACTIVE),
        ("flex", Priority.INTERACTIVE, Priority.BATCH),
        ("default", Priority.INTERACTIVE, Priority.STANDARD),
        ("priority", Priority.INTERACTIVE, Priority.INTERACTIVE),
        ("priority", Priority.STANDARD, Priority.STANDARD),
        ("scale", Priority.BATCH, Priority.BATCH),
    ],
)
def test_a_tier_lowers_the_priority_of_a_key_and_never_raises_it(
    asked: ServiceTier | None, ceiling: Priority, granted: Priority
) -> None:
    assert granted_priority(asked, ceiling) is granted
    assert granted_priority(tier_of(granted), Priority.INTERACTIVE) is granted


def test_interactive_calls_pass_a_flood_of_batch_calls_of_many_keys(tmp_path: Path) -> None:
    async def scenario() -> None:
        with echo_fleet(tmp_path, one=SLOW) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, slack_model(whole("one", 0.05), objective=Slo(60_000.0, 1e3)))
            await fleet.usable(dispatcher)
            flood = [fleet.call(3, account=("p", f"job{n}"), priority=Priority.BATCH) for n in range(40)]
            for call in flood:
                dispatcher.start(call)
            await asyncio.sleep(0)
            urgent = [fleet.call(3, account=("p", "people"), priority=Priority.INTERACTIVE) for _ in range(4)]
            for call in urgent:
                dispatcher.start(call)
            for call in urgent:
                assert_whole(await ended(call))
            assert sum(call.end is None for call in flood) >= 32
            for call in flood:
                assert_whole(await ended(call))
            assert nothing_waits(dispatcher)

    asyncio.run(scenario())


def test_clients_are_told_the_tier_that_they_got_where_they_ask_for_one(tmp_path: Path) -> None:
    world = World(tmp_path, policy="slack-v1", key={"priority": Priority.STANDARD})
    try:
        world.echo("e1", leg=WHOLE)
        world.publish()
        world.start_gateway()
        world.wait_ready()
        client = world.client()
        for asked, got in (("priority", "default"), ("flex", "flex"), ("auto", "default")):
            chat = client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": "a"}],
                max_tokens=2,
                service_tier=asked,  # type: ignore[arg-type]
            )
            assert chat.service_tier == got
            stream = client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": "a"}],
                max_tokens=2,
                stream=True,
                service_tier=asked,  # type: ignore[arg-type]
            )
            assert {chunk.service_tier for chunk in stream} == {got}
        plain = client.completions.create(model=MODEL, prompt="a", max_tokens=2)
        assert "service_tier" not in (plain.model_extra or {})
        with pytest.raises(BadRequestError, match="service_tier"):
            client.completions.create(model=MODEL, prompt="a", extra_body={"service_tier": "fastest"})
    finally:
        world.stop()
