"""An app on a real node of a fleet: a cell with encoders and decoders of a model, requests, and deaths under load."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from control.access.role import Role
from control.cloud.local.kind import LocalKind
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.fleet.routing import GatewayModel
from control.gateway.published import MediaTerms, read_published
from control.gateway.published_app import ServedApp, TaskCode
from policies.routing import BY_ID
from templates_lib.sources.graph_record import CELL, GpuExecutor, GraphRecord
from templates_lib.values.plan import Flow, Plan
from templates_lib.values.template import Software
from templates_lib.values.work import Edge, Leg, Route, Unit, WorkClass
from tests.agents.engines.components.tiny_graphs import save_graph
from tests.control.fleet.fleets import ZONE, plan_of, planned
from tests.control.fleet.live import CONTEXT, STOCK, ControlPlane, Place
from tests.control.gateway.app_world import APP, LOOK, ROLES, TASK, TEXT_ALONE, WITH_IMAGES, app_tokenizer, asked
from tests.control.gateway.world import World
from tests.control.lifecycle.worlds import START
from tests.e2e.test_apps_of_real_models import TOKENS, whole_answer
from tests.e2e.test_shapes_of_apps import is_published, run_and_give_back, until_mended, until_up

pytestmark = pytest.mark.slow

VISION = WorkClass(f"{APP}/vision", APP, "vision", Unit.IMAGE_TOKEN, "s", 0.0)
LANGUAGE = WorkClass(f"{APP}/language", APP, "language", Unit.OUTPUT_TOKEN, "s", 0.0)
SEEN, WRITTEN = Leg(VISION.id, 6.0), Leg(LANGUAGE.id, 8.0)
PICTURES = Route(f"{APP}/{WITH_IMAGES}/vision-language", APP, WITH_IMAGES, (SEEN, WRITTEN), (Edge(0, 1, 1e3),))
TEXTS = Route(f"{APP}/{TEXT_ALONE}/language", APP, TEXT_ALONE, (WRITTEN,))
TEXT, SEEDS = "what_is_it?", ((1,), (2, 3), ())
CLIENTS = 3


def plan() -> Plan:
    groups = (
        GpuExecutor(("vision",), 1, ((0,), (1,)), {f"vision/{WITH_IMAGES}": 4}),
        GpuExecutor(("language",), 1, ((2,), (3,)), {f"language/{WITH_IMAGES}": 4, f"language/{TEXT_ALONE}": 4}),
    )
    software = Software(APP, "r1", "fp32", "components", BY_ID)
    template = GraphRecord(CELL, software, "s", "f", groups, ()).template({"small:1/n10": 1})
    units = {VISION.id: 1e6, LANGUAGE.id: 1e6}
    cell = replace(planned(), template_id=template.id, model=APP, nodes=template.nodes, units_per_s=units)
    flows = (Flow(PICTURES.id, (ZONE, ZONE), 50.0, 0.0), Flow(TEXTS.id, (ZONE,), 50.0, 0.0))
    return plan_of([cell.with_template(template)], [], flows)


def models(place: Place) -> dict[str, GatewayModel]:
    config = json.loads((place.weights / "config.json").read_text()) | {"preprocessor_config": LOOK}
    about: dict[str, Any] = {
        "tokenizer": str(place.tokenizer), "created": 1, "policy": BY_ID, "media": MediaTerms(config)
    }  # fmt: skip
    sizes = CONTEXT, 20, TOKENS
    return {
        f"{APP}-{WITH_IMAGES}": GatewayModel((PICTURES,), (VISION, LANGUAGE), *sizes, **about),
        f"{APP}-{TEXT_ALONE}": GatewayModel((TEXTS,), (LANGUAGE,), *sizes, **about),
    }


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.stop()


def executors(place: Place, component: str) -> list[int]:
    """Processes of a component's executors."""
    lines = {pid: " ".join(psutil.Process(pid).cmdline()) for pid in place.pids()}
    return [pid for pid, line in lines.items() if f"--components {component} " in line]


def test_an_app_of_a_fleet_answers_as_its_whole_model_whoever_dies(
    world: World, database: Database, tmp_path: Path
) -> None:
    save_graph("qwen-vl", tmp_path / "weights")
    place = Place(database, tmp_path, tmp_path / "weights", app_tokenizer(tmp_path / "tokens"), world.keys.public)
    place = replace(place, kinds=(LocalKind("small", 2.0, 4096, STOCK),), memory_mib={})
    _, key = PostgresApiTokens(database).create("client", Role.CLIENT, START)
    app = ServedApp(
        APP,
        TaskCode("describe.py", TASK, "describe"),
        {kind: f"{APP}-{kind}" for kind in (WITH_IMAGES, TEXT_ALONE)},
        ROLES,
    )
    expected = {seeds: whole_answer(place.weights, place.tokenizer, TEXT, seeds) for seeds in SEEDS}

    async def scenario() -> None:
        plane = ControlPlane(place, plan(), models=models(place), components=(APP,), apps=(app,))
        await plane.start()
        await plane.until(lambda: is_published(plane))
        await asyncio.to_thread(world.start_gateway)
        await until_up(world, place)
        headers = {"authorization": f"Bearer {key.reveal()}"}
        async with httpx.AsyncClient(base_url=world.url, headers=headers, timeout=240) as http:

            async def ask(seeds: tuple[int, ...]) -> None:
                body = asked(TEXT, *seeds, max_tokens=TOKENS, temperature=0)
                answer = await http.post("/v1/chat/completions", json=body)
                assert answer.status_code == 200, answer.text
                assert answer.json()["choices"][0]["message"]["content"] == expected[seeds]

            async def keep_asking() -> None:
                while True:
                    for seeds in SEEDS:
                        await ask(seeds)

            for seeds in SEEDS:
                await ask(seeds)
            before = read_published(place.table).addresses
            asking = [asyncio.create_task(keep_asking()) for _ in range(CLIENTS)]
            for component in ("vision", "language"):
                os.kill(executors(place, component)[0], signal.SIGKILL)
            await until_mended(world, plane, before, 2)
            for task in asking:
                task.cancel()
            found = await asyncio.gather(*asking, return_exceptions=True)
            assert [each for each in found if isinstance(each, Exception)] == []
            for seeds in SEEDS:
                await ask(seeds)
        assert await plane.end() == {}
        assert place.pids() == {}

    run_and_give_back(scenario, place)
