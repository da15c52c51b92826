"""A cell on one real node: four executors of an app's components, two request types, and deaths under load.

Each executor's engine is `echo`, in a process of its own with devices and a share of the node of its own.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from control.access.role import Role
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.fleet.live_instances import instance_views
from control.fleet.routing import GatewayModel
from control.gateway.published import read_published
from templates_lib.sources.graph_record import CELL, GpuExecutor, GraphRecord
from templates_lib.values.plan import Flow, Plan
from templates_lib.values.template import Software
from templates_lib.values.work import Edge, Leg, Route, Unit, WorkClass
from tests.control.fleet.fleets import ZONE, plan_of, planned
from tests.control.fleet.live import CONTEXT, ControlPlane, Place
from tests.control.gateway.world import World, byte_tokenizer
from tests.control.lifecycle.worlds import START
from tests.e2e.test_shapes_of_apps import (
    ECHO,
    PROMPT,
    TOKENS,
    Client,
    is_published,
    keep_asking,
    one_of_each,
    run_and_give_back,
    until_mended,
    until_up,
)

pytestmark = pytest.mark.slow

VISION = WorkClass("omni/vision", "omni", "vision", Unit.IMAGE_TOKEN, "s", 0.0)
LANGUAGE = WorkClass("omni/language", "omni", "language", Unit.INVOCATION, "s", 0.0)
SEEN, READ = Leg(VISION.id, 600.0), Leg(LANGUAGE.id, 1.0)
PICTURES = Route("omni/pictures", "omni", "image-text-to-text", (SEEN, READ), (Edge(0, 1, 1e6),))
TEXTS = Route("omni/texts", "omni", "text-to-text", (READ,))
MEMBERS = {"0.vision", "1.vision", "2.language", "3.language"}


def plan() -> Plan:
    groups = (
        GpuExecutor(("vision",), 1, ((0,), (1,)), {"vision/image-text-to-text": 4}),
        GpuExecutor(("language",), 1, ((2,), (3,)), {"language/image-text-to-text": 4, "language/text-to-text": 4}),
    )
    software = Software("omni", "r1", "fp32", "echo", "request-static-v1")
    template = GraphRecord(CELL, software, "s", "f", groups, ()).template({"small:1/n10": 1})
    units = {VISION.id: 60_000.0, LANGUAGE.id: 100.0}
    cell = replace(planned(), template_id=template.id, model="omni", nodes=template.nodes, units_per_s=units)
    flows = (Flow(PICTURES.id, (ZONE, ZONE), 50.0, 0.0), Flow(TEXTS.id, (ZONE,), 50.0, 0.0))
    return plan_of([cell.with_template(template)], [], flows)


def models(tokenizer: Path) -> dict[str, GatewayModel]:
    of_both = {"tokenizer": str(tokenizer), "created": 1}
    return {
        "omni-pictures": GatewayModel((PICTURES,), (VISION, LANGUAGE), CONTEXT, len(PROMPT), TOKENS, **of_both),
        "omni-texts": GatewayModel((TEXTS,), (LANGUAGE,), CONTEXT, len(PROMPT), TOKENS, **of_both),
    }


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.stop()


def test_executors_of_a_cell_serve_and_the_death_of_some_costs_no_request_and_no_instance(
    world: World, database: Database, tmp_path: Path
) -> None:
    place = Place(database, tmp_path, tmp_path / "weights", byte_tokenizer(tmp_path / "tokenizer"), world.keys.public)
    _, key = PostgresApiTokens(database).create("client", Role.CLIENT, START)
    served = models(place.tokenizer)

    async def scenario() -> None:
        plane = ControlPlane(place, plan(), models=served, components=("omni",))
        await plane.start()
        await plane.until(lambda: is_published(plane))
        await asyncio.to_thread(world.start_gateway)
        await until_up(world, place)
        before = read_published(place.table).addresses
        (instance,) = plane.keeper.ready
        assert before.keys() == {f"{instance}/{name}" for name in MEMBERS}
        (seen,) = await asyncio.to_thread(instance_views, database)
        assert {(each.executor, each.components, each.devices) for each in seen.nodes} == {
            (name, (name[2:],), (int(name[0]),)) for name in MEMBERS
        }

        client = Client(world, key)
        assert [await client.ask(model) for model in served] == [ECHO] * len(served)
        victims = one_of_each(place)
        assert len(victims) == len(MEMBERS)
        asking = [asyncio.create_task(keep_asking(client, model)) for model in list(served) * 4]
        for pid in victims[::2]:
            os.kill(pid, signal.SIGKILL)

        await until_mended(world, plane, before, len(victims[::2]))
        for task in asking:
            task.cancel()
        lost = [each for each in await asyncio.gather(*asking, return_exceptions=True) if isinstance(each, Exception)]
        assert lost == []
        assert plane.keeper.ready == {instance}, "it is mended in place"
        assert [await client.ask(model) for model in served] == [ECHO] * len(served)
        assert await plane.end() == {}
        assert place.pids() == {}

    run_and_give_back(scenario, place)
