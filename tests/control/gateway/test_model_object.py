"""What /v1/models says of a model: its context, and what its tokens cost."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bench.text_tables import DECODE, PREFILL, member, text_model
from control.gateway.model_entry import ModelEntry
from control.gateway.model_object import model_object, usd_per_million_tokens
from control.gateway.published import PublishedModel
from control.gateway.tokenizer_source import load_tokenizer
from policies.routing_table import RoutedInstance
from tests.control.gateway.world import byte_tokenizer


def entry(folder: Path, *members: RoutedInstance) -> ModelEntry:
    """Requests have 300 tokens of prompt and 100 of answer."""
    routing = text_model("m", members, per_request=100.0)
    split = routing.routes[0]
    legs = (replace(split.legs[0], units_per_request=300.0), split.legs[1])
    served = PublishedModel(
        replace(routing, routes=(replace(split, legs=legs),)),
        "",
        1000,
        17,
        mean_prompt_tokens=300.0,
        mean_output_tokens=100.0,
        prompt_room_tokens=900,
    )

    async def made() -> ModelEntry:
        return ModelEntry(served, load_tokenizer(byte_tokenizer(folder)))

    return asyncio.run(made())


def test_the_price_is_that_of_the_instances_that_are_up_at_full_use(tmp_path: Path) -> None:
    """Prompts of 20 requests a second and answers of 10: 4,000 tokens a second for $7.20 an hour."""
    prefill = replace(member("m", "p", "z", PREFILL, 6000.0), usd_per_hour=4.2)
    decode = replace(member("m", "d", "z", DECODE, 1000.0), usd_per_hour=3.0)
    model = entry(tmp_path, prefill, decode)
    assert usd_per_million_tokens(model) is None, "nothing is up"
    model.take_usable(("p", "d"))
    assert usd_per_million_tokens(model) == pytest.approx(7.2 / (4000 * 3600) * 1e6)
    said = model_object(model)
    assert (said["max_model_len"], said["context_tokens"]) == (900, 1000)


def test_no_price_is_said_where_the_table_does_not_know_it(tmp_path: Path) -> None:
    free = member("m", "p", "z", PREFILL)
    shared = replace(member("m", "unit/d", "z", DECODE), usd_per_hour=1.0)
    for other in (free, shared):
        priced = replace(member("m", "x", "z", PREFILL if other is shared else DECODE), usd_per_hour=1.0)
        model = entry(tmp_path, other, priced)
        model.take_usable((other.id, priced.id))
        assert usd_per_million_tokens(model) is None
