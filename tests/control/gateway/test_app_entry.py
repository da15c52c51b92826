"""The entry of an app with real code, while tables change under the requests that wait for it."""

import asyncio
from dataclasses import replace

import pytest

from control.gateway.api_error import ApiError
from control.gateway.media.media_unit import MediaUnits
from control.gateway.published_app import ServedApp, TaskCode
from control.gateway.tasks.app_entry import AppEntry
from control.gateway.tasks.unit_graph import UnitGraph
from medley_sdk.values import Signature
from policies.routing import BY_ID
from policies.routing_table import RoutedModel, RoutedRoute
from templates_lib.graphs.catalogue import load_graph
from tests.control.gateway.app_world import APP, ROLES, WRITTEN

GRAPH = load_graph("qwen2.5-vl-7b")
TEXT = Signature("text", True, 0, 0)
CODE = """
from medley_sdk import decoder, workflow
language = decoder("language", of="qwen2.5-vl-7b")

@workflow(takes=("text",), makes=("text",))
async def task(request):
    return language(request.text)
"""


AWAITS = CODE.replace("language(request.text)", "(await language(request.text)).upper()")


def served(code: str = CODE) -> ServedApp:
    return ServedApp(APP, TaskCode("task.py", code, "task"), {}, ROLES)


async def graphs(entry: AppEntry, *routes: str) -> dict[str, UnitGraph]:
    routing = RoutedModel("model", tuple(RoutedRoute(name, (WRITTEN,)) for name in routes), (), BY_ID)
    return await entry.graphs(TEXT, routing, GRAPH, MediaUnits(()))


def test_what_was_asked_of_the_table_before_is_not_kept_for_the_next() -> None:
    async def scenario() -> None:
        entry = AppEntry(served(), {})
        try:
            waiting = asyncio.ensure_future(graphs(entry, "old"))
            await asyncio.sleep(0)
            entry.update(served(), {})
            assert (await waiting).keys() == {"old"}
            assert (await graphs(entry, "old", "new")).keys() == {"old", "new"}
        finally:
            entry.close()

    asyncio.run(scenario())


def test_code_that_was_replaced_has_requests_come_again() -> None:
    async def scenario() -> None:
        entry = AppEntry(served(), {})
        entry.close()
        with pytest.raises(ApiError) as refused:
            await graphs(entry, "route")
        assert refused.value.status == 503

    asyncio.run(scenario())


def test_more_requests_than_may_wait_for_code_are_told_to_come_again_but_not_their_answers() -> None:
    async def scenario() -> None:
        entry = AppEntry(served(AWAITS), {})
        try:
            found = (await graphs(entry, "route"))["route"]
            entry.update(replace(served(AWAITS), choices={f"{n}": (n,) for n in range(300)}), {})
            asked = [asyncio.ensure_future(graphs(entry, f"{n}")) for n in range(300)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert entry._waiting == 256
            answer = asyncio.ensure_future(entry.answer(found, "said"))
            over = await asyncio.gather(*asked, return_exceptions=True)
            assert sum(isinstance(each, ApiError) and each.status == 429 for each in over) == 300 - 256
            assert await answer == "SAID"
        finally:
            entry.close()

    asyncio.run(scenario())
