"""Apps that are no text models, from a file to what clients see: planned, launched on local nodes, routed, killed under
load, and simulated.

A request of three legs, a unit that two models share, and a cell whose requests have two ways. Their nodes are those of
the local cloud, and every executor's engine is `echo`.
"""

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
from openai import AsyncOpenAI, RateLimitError

from control.access.role import Role
from control.access.secret import Secret
from control.allocator import solve
from control.checker import check, claims_of
from control.cloud.local.kind import LocalKind
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.diff.target import targets
from control.fleet.live_instances import instance_views
from control.fleet.routing import GatewayModel
from control.gateway.published import read_published
from control.planning.recipe import Recipe
from control.planning.recording import Recording, versioned
from control.simulator.serving.plan_timeline import timeline_of_plan
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome
from control.simulator.serving.simulate import simulate
from templates_lib.apps.app import serving_id
from templates_lib.sources.listed_source import ListedTemplate
from templates_lib.values.placement import Share, Stage, StageNodes
from templates_lib.values.plan import Plan
from tests.control.fleet.fleets import MARKET
from tests.control.fleet.live import CONTEXT, PATIENCE_S, ControlPlane, Place
from tests.control.gateway.world import World, byte_tokenizer
from tests.control.lifecycle.worlds import START
from tests.properties.test_shapes_to_come import FILES, library_of, read, recipe_of, source_of
from tests.templates_lib.units import executor, unit_template

pytestmark = pytest.mark.slow

PROMPT, TOKENS, ROUNDS = "Hello", 12, 12
MORE = 1.5
"""Times the demand of the file: every component then has two executors or more, and both ways of a cell are taken."""
ECHO = (PROMPT * TOKENS)[:TOKENS]
_GPU = re.compile(r"([^:]+):(\d+)/n\d+")


def localised(recording: Recording) -> tuple[Recording, tuple[LocalKind, ...]]:
    """The same structure on nodes of the local cloud, each template as a unit of echo executors."""
    recipe = recipe_of(recording)
    kinds = {config: _kind(config) for template in recipe.templates for config in template.nodes}
    classes = {each.id: each.component for each in recipe.classes}
    templates = tuple(_unit(each, kinds, classes, 64 + number) for number, each in enumerate(recipe.templates))
    cheapest: dict[str, float] = {}
    counts = Counter[str]()
    for offer in recording.snapshot.offers:
        at = cheapest.get(offer.node_config, offer.usd_per_hour)
        cheapest[offer.node_config] = min(at, offer.usd_per_hour)
        counts[offer.node_config] += offer.available_count or 0
    used = {config: LocalKind(kind, 2.0, 1024, 12) for config, kind in kinds.items()}
    offers = tuple(
        replace(
            recording.snapshot.offers[0],
            cloud="local",
            region="here",
            zone="here",
            instance_type=kind.name,
            node_config=f"{kind.name}:1/n10",
            market=MARKET,
            usd_per_hour=cheapest[config],
            available_count=counts[config],
            interruptions_per_hour=0.0,
        )
        for config, kind in used.items()
    )
    demand = tuple(replace(each, requests_per_s=MORE * each.requests_per_s) for each in recording.snapshot.demand)
    snapshot = versioned(replace(recording.snapshot, offers=offers, pools=(), traffic=(), demand=demand))
    listed = replace(recipe, templates=templates)
    return replace(recording, snapshot=snapshot, recipe=Recipe((listed,))), tuple(used.values())


def _kind(config: str) -> str:
    """A GPU of the catalogue for each configuration, so that simulations know its network."""
    gpu, count = _GPU.fullmatch(config).groups()  # type: ignore[union-attr]
    return {("H100", "4"): "H200"}.get((gpu, count), gpu)


def _unit(listed: ListedTemplate, kinds: dict[str, str], classes: dict[str, str], kv_blocks: int) -> ListedTemplate:
    """One executor for each component, on every node of the template. `kv_blocks`: what tells templates apart."""
    components = sorted({classes[name] for point in listed.points for name in point.units_per_s})
    nodes = Counter[str]()
    for config, count in listed.nodes.items():
        nodes[f"{kinds[config]}:1/n10"] += count
    stages = tuple(
        Stage(
            number,
            1,
            number == 0,
            number == len(nodes) - 1,
            (StageNodes(config, count, 1 / count, 1, 1, 1, 1, 4, 16, kv_blocks),),
        )
        for number, (config, count) in enumerate(sorted(nodes.items()))
    )
    numbers = iter(range(sum(nodes.values())))
    slots = tuple(tuple(next(numbers) for _ in range(count)) for _, count in sorted(nodes.items()))
    executors = [
        replace(executor(name), stages=stages, slots=slots, share=Share((), 1 / len(components))) for name in components
    ]
    placement = unit_template(*executors, nodes=dict(nodes)).placement
    software = replace(listed.software, engine="echo")
    return replace(listed, software=software, nodes=dict(nodes), placement=placement)


def planned(recording: Recording) -> Plan:
    source, recipe = source_of(recording), recipe_of(recording)
    library = library_of(source)
    plan = solve(recording.snapshot, library)
    assert check(plan, recording.snapshot, claims_of(library, (i.template_id for i in plan.instances))) == ()
    assert not plan.unmet
    templates = {each.template().id: each.template() for each in recipe.templates}
    return replace(plan, instances=tuple(i.with_template(templates[i.template_id]) for i in plan.instances))


def models_of(recording: Recording, tokenizer: Path) -> dict[str, GatewayModel]:
    """By the name that clients use, in the order of the demand."""
    recipe = recipe_of(recording)
    found = {}
    for demand in recording.snapshot.demand:
        of_it = (demand.app, demand.request_type)
        routes = tuple(each for each in recording.snapshot.routes if (each.app, each.request_type) == of_it)
        legs = {leg.work_class for route in routes for leg in route.legs}
        classes = tuple(each for each in recipe.classes if each.id in legs)
        found[serving_id(*of_it)] = GatewayModel(
            routes, classes, CONTEXT, len(PROMPT), TOKENS, tokenizer=str(tokenizer), created=1
        )
    return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.stop()


class Client:
    """Sends each request once: nothing is asked again."""

    def __init__(self, world: World, key: Secret) -> None:
        self._client = AsyncOpenAI(base_url=f"{world.url}/v1", api_key=key.reveal(), max_retries=0, timeout=240)

    async def ask(self, model: str) -> str:
        """An answer, once there is room: who asks for more than was planned is turned away, and nothing is lost."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    done = await self._client.completions.create(
                        model=model, prompt=PROMPT, max_tokens=TOKENS, temperature=0
                    )
                except RateLimitError:
                    await asyncio.sleep(0.05)
                else:
                    return done.choices[0].text


def ended(database: Database, components: set[str]) -> dict[tuple[str, str], list[int]]:
    """(template, component) → requests that ended well, instance by instance, as the schedulers count them."""
    found: dict[tuple[str, str], list[int]] = {}
    for view in instance_views(database):
        counts = Counter[str]()
        for url in {node.metrics for node in view.nodes if node.metrics}:
            for line in httpx.get(url, timeout=60).text.splitlines():
                if line.startswith("vllm:request_success_total"):
                    name = re.search(r'model_name="([^"]*)"', line)
                    assert name is not None
                    counts[name[1]] += int(float(line.rsplit(" ", 1)[1]))
        for name, count in counts.items():
            found.setdefault((view.template, name if name in components else view.model), []).append(count)
    return {key: sorted(counts) for key, counts in found.items()}


def total(counts: dict[tuple[str, str], list[int]]) -> int:
    return sum(sum(each) for each in counts.values())


def unlike(a: dict[tuple[str, str], list[int]], b: dict[tuple[str, str], list[int]]) -> int:
    assert a.keys() == b.keys()
    return sum(abs(x - y) for key in a for x, y in zip(a[key], b[key], strict=True))


def simulated(recording: Recording, plan: Plan, apps: list[str]) -> dict[tuple[str, str], list[int]]:
    """The same of a simulation of as many requests in the same order, one after the other."""
    assert recording.recipe is not None
    snapshot, n = recording.snapshot, ROUNDS * len(apps)
    timeline = timeline_of_plan(plan, recording.recipe, snapshot.routes, 10.0 * n)
    order = np.arange(n) % len(apps)
    requests = Requests(tuple(apps), order, 10.0 * np.arange(n), np.full(n, len(PROMPT)), np.full(n, TOKENS))
    served = simulate(requests, timeline)
    assert (served.outcome == Outcome.SERVED).all()
    components = {each.id: each.component for each in recipe_of(recording).classes}
    wanted, counts = targets(plan), Counter[tuple[str, str]]()
    for life in timeline.instances:
        counts.update({(life.id, components[name]): 0 for name in life.units_per_s})
    for app, places in zip(order.tolist(), served.places.tolist(), strict=True):
        there = [place for place in places if place >= 0]
        routes = [r for r in snapshot.routes if serving_id(r.app, r.request_type) == apps[app]]
        for leg, place in enumerate(there):
            legs = {r.legs[leg].work_class for r in routes if len(r.legs) == len(there)}
            life = timeline.instances[place]
            (name,) = legs & life.units_per_s.keys()
            counts[life.id, components[name]] += 1
    found: dict[tuple[str, str], list[int]] = {}
    for (name, component), count in counts.items():
        (number,) = re.findall(r"/(\d+)\.\d+(?:/|$)", name)
        found.setdefault((wanted[int(number)].template_id, component), []).append(count)
    return {key: sorted(each) for key, each in found.items()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_app_of_any_shape_is_planned_launched_routed_killed_and_simulated(
    path: Path, world: World, database: Database, tmp_path: Path
) -> None:
    recording, kinds = localised(read(path))
    plan = planned(recording)
    place = Place(database, tmp_path, tmp_path / "weights", byte_tokenizer(tmp_path / "tokenizer"), world.keys.public)
    place = replace(place, kinds=kinds, memory_mib={})
    models = models_of(recording, place.tokenizer)
    components = {each.component for each in recipe_of(recording).classes}
    expected = simulated(recording, plan, list(models))
    _, key = PostgresApiTokens(database).create("client", Role.CLIENT, START)

    async def scenario() -> None:
        plane = ControlPlane(place, plan, models=models, components=tuple(components))
        await plane.start()
        await plane.until(lambda: is_published(plane))
        await asyncio.to_thread(world.start_gateway)
        await until_up(world, place)
        client = Client(world, key)
        for _ in range(ROUNDS):
            assert [await client.ask(model) for model in models] == [ECHO] * len(models)
        async with asyncio.timeout(PATIENCE_S):  # schedulers tell their nodes what they have done at every beat
            while total(made := await asyncio.to_thread(ended, database, components)) < total(expected):
                await asyncio.sleep(0.1)
        # A request that lost its instance, as on a machine that stalls, was routed once more.
        assert unlike(made, expected) <= len(components) * sum(
            value for name, value in world.metrics().items() if name.startswith("medley_gateway_resumptions_total")
        )

        # One executor of each component dies under load: nothing is lost, and all is as planned again.
        victims, before = one_of_each(place), read_published(place.table).addresses
        asking = [asyncio.create_task(keep_asking(client, model)) for model in list(models) * 4]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)

        await until_mended(world, plane, before, len(victims))
        for task in asking:
            task.cancel()
        lost = [each for each in await asyncio.gather(*asking, return_exceptions=True) if isinstance(each, Exception)]
        assert lost == []
        assert [await client.ask(model) for model in models] == [ECHO] * len(models)
        assert await plane.end() == {}
        assert place.pids() == {}

    run_and_give_back(scenario, place)


def run_and_give_back(scenario: Callable[[], Coroutine[Any, Any, None]], place: Place) -> None:
    """No node is left, whatever becomes of the scenario."""
    try:
        asyncio.run(scenario())
    finally:
        cloud = place.cloud()
        for node in cloud.list({}, START):
            cloud.terminate(node.name, START)


async def until_mended(world: World, plane: ControlPlane, before: Mapping[str, str], killed: int) -> None:
    """Wait until so many members have other addresses than `before`, and gateways reach them."""

    def is_mended() -> bool:
        new = set(read_published(plane.place.table).addresses.values()) - set(before.values())
        return len(new) >= killed and is_published(plane)

    await plane.until(is_mended)
    await until_up(world, plane.place)


def is_published(plane: ControlPlane) -> bool:
    """Whether all that the plan wants is ready, and gateways may know."""
    if not plane.place.table.exists():
        return False
    members = {member.partition("/")[0] for member in read_published(plane.place.table).addresses}
    return plane.keeper.is_settled() and members == {instance.id for instance in plane.keeper.known}


async def until_up(world: World, place: Place) -> None:
    for member in read_published(place.table).addresses:
        await asyncio.to_thread(world.wait_for, f'medley_gateway_instance_up{{instance="{member}"}}', 1.0)


async def keep_asking(client: Client, model: str) -> None:
    """Go on until it is cancelled. Raises AssertionError for a wrong answer, and as the client does for a lost one."""
    while True:
        assert await client.ask(model) == ECHO


def one_of_each(place: Place) -> list[int]:
    """A scheduler's process of each component."""
    found: dict[str, int] = {}
    for pid in place.pids():
        command = " ".join(psutil.Process(pid).cmdline())
        if "agents.echo" in command and (named := re.search(r"/([^/ ]+)\.json", command)):
            found.setdefault(named[1], pid)
    return list(found.values())
