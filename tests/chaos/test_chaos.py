"""Whoever is killed, whenever: clients see every token once, and nothing is left behind."""

import asyncio
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import openai
import pytest
import torch

from agents.engines.sampling import Sampling
from agents.weights.source import open_checkpoint
from bench.text_tables import DECODE, PREFILL
from control.access.role import Role
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.fleet.instance_view import InstanceView
from control.fleet.live_instances import instance_views
from control.fleet.order import FleetOrder
from control.lifecycle.history import PastTransition
from control.up.gateway_process import ensure_gateway
from control.up.home import UpHome
from control.up.site import Site, keep_up
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.chaos.site import COPIES, CUTS, MODEL, site
from tests.chaos.victims import Victim, kill, of_home, of_nodes
from tests.control.lifecycle.worlds import TickingClock

CLIENTS = 6
REQUESTS = 24
"""Different ones; clients repeat them."""
START_S = 300.0
REQUEST_S = 240.0
"""Without a byte: longer than any recovery takes."""
SETTLE_S = 240.0


@dataclass(frozen=True)
class Target:
    """Whom a kill is for: the `program` at a stage of a leg; a whole node where no program is named."""

    leg: str
    stage: int
    program: str = ""
    while_loading: bool = False

    def __str__(self) -> str:
        when = " while it loads" if self.while_loading else ""
        return f"{self.leg} stage {self.stage} {self.program or 'node'}{when}"


SCHEDULE = (
    (Target(DECODE, 1, "agents.stage"), Target(PREFILL, 0, "agents.stage")),
    (Target(DECODE, 0, "agents.scheduler"), Target(PREFILL, 0, "agents.scheduler")),
    (Target(DECODE, 2), Target(PREFILL, 1)),
    (Target(DECODE, 0, "agents.node"),),
    (Target(DECODE, 1, "agents.stage", while_loading=True),),
)
"""Every role, of one instance of either leg at once: another of each is left. The loading one is hit right after
another kill has made an instance load."""


@dataclass
class Load:
    """Clients in closed loops, which compare every answer with the one engine's."""

    url: str
    key: str
    expected: dict[int, tuple[list[int], dict[str, object], list[int]]]
    answers: int = 0
    faults: list[str] = field(default_factory=list)

    async def run(self, stop: asyncio.Event) -> None:
        async with openai.AsyncOpenAI(
            base_url=f"{self.url}/v1", api_key=self.key, max_retries=0, timeout=REQUEST_S
        ) as client:
            await asyncio.gather(*(self._client(client, number, stop) for number in range(CLIENTS)))

    async def _client(self, client: openai.AsyncOpenAI, number: int, stop: asyncio.Event) -> None:
        chosen = random.Random(number)
        while not stop.is_set():
            which = chosen.randrange(REQUESTS)
            prompt, how, tokens = self.expected[which]
            try:
                got = await self._ask(client, prompt, len(tokens), how)
            except (openai.OpenAIError, httpx.HTTPError) as error:
                self.faults.append(f"{time.monotonic():.1f} request {which}: {type(error).__name__} {error}")
                continue
            if got != tokens:
                self.faults.append(f"{time.monotonic():.1f} request {which}: {got} is not {tokens}")
            self.answers += 1

    async def _ask(
        self, client: openai.AsyncOpenAI, prompt: list[int], count: int, how: dict[str, object]
    ) -> list[int]:
        stream = await client.completions.create(
            model=MODEL, prompt=prompt, max_tokens=count, stream=True, extra_body={"temperature": 0, **how}
        )
        text = "".join([chunk.choices[0].text async for chunk in stream])
        return [int(token) for token in re.findall(r"\[(\d+)\]", text)]


@dataclass
class Killer:
    site: Site
    order: FleetOrder
    load: Load
    log: list[str] = field(default_factory=list)
    chosen: random.Random = field(default_factory=lambda: random.Random(7))
    dead: set[str] = field(default_factory=set)
    """Instances of which something was killed."""

    async def run(self) -> None:
        for roles in SCHEDULE:
            if not any(role.while_loading for role in roles):
                await self.until_whole()
                answers = self.load.answers
                async with asyncio.timeout(START_S):
                    while self.load.answers < answers + 2 * CLIENTS:  # all are busy with it again
                        await asyncio.sleep(0.05)
            for role in roles:
                instance, victims = await self._find(role)
                self.dead.add(instance)
                self.log.append(f"{time.monotonic():.1f} SIGKILL {role}: {', '.join(v.node for v in victims)}")
                kill(victims)
        await self.until_whole()

    async def until_whole(self) -> None:
        """All instances that are wanted are ready, and the gateway sends requests to them: one may die. Those that were
        killed do not count, though it takes a moment until somebody knows."""
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up:
            views = [view for view in await self._views() if view.state == "ready"]
            ready = Counter(view.leg for view in views)
            found = {view.id for view in views}
            if all(ready[leg] == COPIES for leg in CUTS) and not found & self.dead and found <= await self._routed():
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"not whole after {START_S:.0f} s: {[(v.leg, v.state) for v in await self._views()]}")

    async def _find(self, role: Target) -> tuple[str, list[Victim]]:
        """Return an instance that has the role, and processes of it to kill."""
        give_up = time.monotonic() + SETTLE_S
        while time.monotonic() < give_up:
            state = "loading" if role.while_loading else "ready"
            views = [v for v in await self._views() if (v.leg, v.state) == (role.leg, state)]
            if views:
                view = self.chosen.choice(views)
                nodes = [node.name for node in view.nodes if node.stage == role.stage and node.name]
                found = await asyncio.to_thread(of_nodes, nodes[:1])
                wanted = [v for v in found if role.program in ("", v.program)]
                if wanted:
                    return view.id, wanted
            await asyncio.sleep(0.02)
        raise AssertionError(f"nobody is {role}")

    async def _routed(self) -> set[str]:
        """Instances that the gateway says requests can go to."""
        async with httpx.AsyncClient(timeout=REQUEST_S) as client:
            said = (await client.get(f"{self.load.url}/metrics")).text
        return set(re.findall(r'^medley_gateway_instance_up{instance="(.+)"} 1\.0$', said, re.MULTILINE))

    async def _views(self) -> list[InstanceView]:
        """As planned: the instances' plan is not in the database."""
        views = await asyncio.to_thread(instance_views, self.site.database)
        legs = {w.template.id: w.classes[0].rpartition("/")[2] for w in self.order.wanted}
        return [replace(view, leg=legs[view.template]) for view in views]


@pytest.mark.slow
def test_kills_in_every_role_cost_no_client_anything(tmp_path: Path, database: Database) -> None:
    torch.set_num_threads(1)
    checkpoint = tmp_path / "tiny"
    checkpoint.mkdir()
    save_model("qwen3", checkpoint)
    whole = Pipeline.load(open_checkpoint(checkpoint), [LAYERS])
    expected = {}
    for n in range(REQUESTS):
        prompt, count = prompt_of(4 + 7 * (n % 20), n), 8 + 3 * (n % 16)
        how = {"temperature": 0.8, "top_p": 0.9, "seed": n} if n % 3 == 0 else {}
        sampling = Sampling(how.get("temperature", 0.0), how.get("top_p", 1.0), 0, how.get("seed", 0))
        expected[n] = (prompt, how, whole.generate(prompt, count, sampling=sampling))
    home = UpHome.below(tmp_path / "home")
    steps: list[str] = []

    def said(step: PastTransition) -> None:
        steps.append(f"{time.monotonic():.1f} {step.instance_id} {step.to_state}: {step.reason}")

    where, order = site(home, database, checkpoint, said)
    tokens = PostgresApiTokens(database)
    _, key = tokens.create("chaos", Role.CLIENT, TickingClock()())
    gateway = ensure_gateway(home, "127.0.0.1", 0)
    load, end, done = Load(gateway.url, key.reveal(), expected), asyncio.Event(), asyncio.Event()
    killer = Killer(where, order, load)

    async def scenario() -> dict[str, str]:
        kept = asyncio.create_task(keep_up(where, gateway, lambda _: None, end))
        try:
            await killer.until_whole()
            clients = asyncio.create_task(load.run(done))
            await killer.run()
            done.set()
            await clients
        finally:
            end.set()
            left = await kept
        return left

    try:
        left = asyncio.run(scenario())
    finally:
        lines = [*killer.log, *steps, *load.faults]
        print(*sorted(lines, key=lambda line: float(line.split()[0])), f"{load.answers} answers", sep="\n")
    assert load.faults == []
    assert left == {}
    assert of_home(str(tmp_path)) == []
    assert load.answers >= 2 * CLIENTS * sum(not role.while_loading for role, *_ in SCHEDULE)
