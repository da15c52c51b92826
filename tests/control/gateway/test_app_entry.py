"""The entry of an app with real code, while tables change under the requests that wait for it."""

import asyncio
import json
from dataclasses import replace

import pytest

from control.gateway.api_error import ApiError
from control.gateway.bodies import ChatBody, read_body
from control.gateway.chat_request import chat_params
from control.gateway.generation_params import GenerationParams
from control.gateway.media.media_unit import MediaUnits
from control.gateway.published_app import ServedApp, TaskCode
from control.gateway.tasks.app_entry import AppEntry
from control.gateway.tasks.apps import Apps
from control.gateway.tasks.unit_graph import UnitGraph
from control.tasks.shipped_task import VARIABLE, shipped_source
from medley_sdk.values import Signature
from policies.routing import BY_ID
from policies.routing_table import RoutedLeg, RoutedModel, RoutedRoute
from templates_lib.graphs.catalogue import load_graph
from templates_lib.values.work import Edge, Unit
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


def chat(model: str, *modalities: str) -> GenerationParams:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "modalities": modalities}
    return chat_params(read_body(json.dumps(body).encode(), ChatBody))


def test_spoken_answers_are_refused_for_what_is_missing() -> None:
    """What nobody makes is the client's mistake; what the plan does not serve now, or no gateway can, is not."""
    omni = ServedApp(
        "omni", TaskCode("task.py", CODE, "task"), {"text-to-text": "a", "image-text-to-audio": "b"}, ROLES
    )

    async def scenario() -> None:
        apps = Apps()
        apps.update([served(), omni], {})
        try:
            for name, modalities, status, param, named in (
                ("writer", ("text", "audio"), 400, "modalities", "text"),
                ("omni", ("text", "image"), 400, "modalities", "audio, text"),
                ("nobody", ("text", "audio"), 404, "model", "model"),
                ("omni", ("text", "audio"), 503, None, "text-to-audio"),
                (APP, ("text", "audio"), 503, None, "nothing"),
            ):
                with pytest.raises(ApiError) as refused:
                    apps.resolve(chat(name, *modalities), ["writer"])
                assert (refused.value.status, refused.value.param) == (status, param), name
                assert named in refused.value.message
            assert apps.resolve(chat("writer", "text"), ["writer"])[1] is None
        finally:
            apps.close()

    asyncio.run(scenario())


def test_an_answer_of_a_thinker_and_a_talker_is_planned_and_not_served() -> None:
    source, parts = shipped_source("qwen2.5-omni-7b"), ("thinker", "talker", "vocoder")
    legs = tuple(RoutedLeg(f"omni/{part}", Unit.OUTPUT_TOKEN, 1.0) for part in parts)
    roles = {leg.work_class: (part,) for leg, part in zip(legs, parts, strict=True)}
    omni = ServedApp("omni", TaskCode(source.file, source.text, VARIABLE), {}, roles)
    route = RoutedRoute("route", legs, (Edge(0, 1, 1.0), Edge(1, 2, 1.0)))
    routing = RoutedModel("model", (route,), (), BY_ID)

    async def scenario() -> None:
        entry = AppEntry(omni, {})
        try:
            graph = load_graph("qwen2.5-omni-7b")
            with pytest.raises(ApiError, match="text-to-audio") as refused:
                await entry.graphs(Signature("audio"), routing, graph, MediaUnits(()))
            assert refused.value.status == 503
        finally:
            entry.close()

    asyncio.run(scenario())
