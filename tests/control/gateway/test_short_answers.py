"""Requests whose answers are short go to aggregated instances where that is cheaper, and others do not."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agents.echo.scheduler import EchoSettings
from agents.messages.to_gateway import FinishReason
from bench.text_tables import DECODE, PREFILL, WHOLE, member, text_model
from policies.routing import BY_SLACK
from policies.routing_table import RoutedInstance, RoutedModel
from tests.control.gateway.echo_fleet import echo_fleet, ended, takes

MEAN = 64.0
"""Tokens of a prompt, and of an answer."""


def instance(name: str, leg: str, units_per_s: float, prompt_s: float | None) -> RoutedInstance:
    own = member("m", name, "z", leg, units_per_s)
    return replace(own, times=None if prompt_s is None else takes(prompt_s), usd_per_hour=3.6)


def routed() -> RoutedModel:
    """A second costs 0.001 $. Of a mean request the aggregated instance takes 0.1 s, nearly all for the answer; the
    other two take 0.01 s for any prompt and 0.02 s for a mean answer: from 8 tokens on they are cheaper."""
    whole = instance("w", WHOLE, 10.0, 0.0)
    split = instance("p", PREFILL, 100 * MEAN, 0.01), instance("d", DECODE, 50 * MEAN, None)
    return replace(text_model("m", (whole, *split), per_request=MEAN), policy=BY_SLACK)


@pytest.mark.parametrize(("allowed", "by"), [(1, ("w",)), (6, ("w",)), (10, ("p", "d")), (500, ("p", "d"))])
def test_what_a_client_allows_an_answer_decides_where_it_is_cheapest(
    tmp_path: Path, allowed: int, by: tuple[str, ...]
) -> None:
    async def scenario() -> None:
        settings = dict.fromkeys("wpd", EchoSettings(tokens_per_step=64))
        with echo_fleet(tmp_path, **settings) as fleet:
            dispatcher = fleet.dispatcher()
            fleet.publish(dispatcher, routed())
            await fleet.usable(dispatcher)
            call = fleet.call(allowed)
            dispatcher.start(call)
            assert (await ended(call)).end is FinishReason.LENGTH
            assert call.served_by == [by]

    asyncio.run(scenario())
