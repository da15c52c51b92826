"""A node that runs several executors: one of them dies, and the others go on."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.messages import session
from agents.messages.to_gateway import Finished, SchedulerState
from agents.messages.to_scheduler import Generate, Sampling
from agents.node.executor_life import MOST, MOST_OF_MEMBERS
from control.hub.deployed import Deployed, ModelFiles
from control.hub.gang import Gang, GangExecutor, GangPlace, gang_of
from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from templates_lib.sources.graph_record import CELL, GpuExecutor, GraphRecord
from templates_lib.values.template import Software
from tests.agents.node.sites import Agent, Site, end, play, until
from tests.agents.stage.instances import Gateway

PROMPT, TOKENS = (1, 2, 3), 8
EARS, MOUTH = "0.ears", "1.mouth"


def executor(name: str, engine: str = "echo") -> GangExecutor:
    place = GangPlace("small:1/n10", 0, 0, 6, 1.0, 4, 16, 24, compute=0.5)
    return GangExecutor((place,), engine, "fp32", name, name)


def cell() -> tuple[GangExecutor, ...]:
    """Two components of one app, a device of the node each."""
    groups = tuple(GpuExecutor((name,), 1, ((device,),), {}) for device, name in enumerate(("ears", "mouth")))
    record = GraphRecord(CELL, Software("omni", "r", "fp32", "echo", "request-static-v1"), "s", "f", groups, ())
    return gang_of(record.template({"small:2/n10": 1})).executors


def deploy(
    site: Site,
    agent: Agent,
    *executors: GangExecutor,
    weights: Path = Path("/nowhere"),
    state: InstanceState = InstanceState.LOADING,
    model: str = "",
    pool_bytes: int = 0,
) -> None:
    """`model`: that all of them serve; each one of its own where nothing is said. `pool_bytes`: of the KV cache that
    they share."""
    files = {each.id: ModelFiles(model or each.id, f"path:{weights}", 192, 256) for each in executors}
    site.board.deploy([Deployed("i1", state, Gang(executors, pool_bytes), files, (agent.name,), (0,))])
    site.tell()


def state(site: Site, name: str) -> SchedulerState | None:
    said = site.board.scheduler("i1", name)
    return said.status.state if said is not None and said.status is not None else None


async def until_ready(site: Site, agent: Agent, *names: str) -> None:
    def ready() -> bool:
        site.tell()
        assert site.failure(agent) == ""
        return all(state(site, name) is SchedulerState.READY for name in names)

    await until(ready)


def gateway_of(site: Site, name: str) -> Gateway:
    said = site.board.scheduler("i1", name)
    assert said is not None
    addresses = {"endpoint": said.endpoint, "public_key": said.public_key}
    return Gateway(SimpleNamespace(addresses=addresses, gateway=site.gateway))  # type: ignore[arg-type]


def request(attempt: int, model: str) -> Generate:
    return Generate(attempt, f"r{attempt}", model, PROMPT, (), TOKENS, (), Sampling(0.0, 1.0, 0, 0), 600.0)


@pytest.mark.parametrize(
    ("engine", "victims"), [("torch", ("agents.scheduler", "agents.stage")), ("echo", ("agents.echo",))]
)
def test_an_executor_that_is_killed_is_back_in_place_and_the_other_serves_on(
    site: Site, tiny_llama: Path, engine: str, victims: tuple[str, ...]
) -> None:
    """Each of its processes in turn."""

    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        both = executor("a", engine), executor("b")
        deploy(site, agent, *both, weights=tiny_llama)
        await until_ready(site, agent, "a", "b")
        ((_, event),) = site.board.events(0.0)
        assert event.kind is EventKind.LOADED
        deploy(site, agent, *both, weights=tiny_llama, state=InstanceState.READY)
        other = agent.child("agents.echo", "/b.json")
        for victim in victims:
            await killed_and_back(site, agent, victim)
        assert agent.child("agents.echo", "/b.json") == other
        assert end(agent) == (0, [])

    play(site, scenario)


async def killed_and_back(site: Site, agent: Agent, victim: str) -> None:
    before = site.board.scheduler("i1", "a")
    pid = agent.child(victim, "" if victim != "agents.echo" else "/a.json")
    assert pid is not None
    async with gateway_of(site, "b") as client:
        client.send(request(0, "b"))
        os.kill(pid, signal.SIGKILL)

        def is_back() -> bool:
            # One request after the other, for as long as the executor beside is away.
            site.tell()
            assert site.board.events(0.0) == []
            if len(client.ends()) == sent[0]:
                client.send(request(sent[0], "b"))
                sent[0] += 1
            said = site.board.scheduler("i1", "a")
            return said is not None and said.public_key != before.public_key and state(site, "a") == "ready"  # type: ignore[union-attr]

        sent = [1]
        await until(is_back)
        await client.until(lambda: len(client.ends()) == sent[0])
        assert all(isinstance(ended, Finished) for ended in client.ends().values())
        assert {len(client.tokens(attempt)) for attempt in range(sent[0])} == {TOKENS}
    async with gateway_of(site, "a") as client:
        client.send(request(0, "a"))
        await client.until(client.ends)
        assert isinstance(client.ends()[0], Finished)


def test_an_executor_of_a_cell_that_dies_again_and_again_takes_its_instance_with_it(site: Site) -> None:
    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        both = cell()
        deploy(site, agent, *both)
        for death in range(MOST + 1):
            assert site.failure(agent) == "", death
            await until(lambda: state(site, EARS) is SchedulerState.READY or site.tell())
            said, pid = site.board.scheduler("i1", EARS), agent.child("agents.echo", f"/{EARS}.json")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await until(lambda said=said: site.failure(agent) or site.board.scheduler("i1", EARS) != said)  # type: ignore[misc]
        await until(lambda: site.failure(agent))
        assert site.failure(agent).startswith(f"executor {EARS}: scheduler was ended by SIGKILL")
        assert state(site, MOUTH) is SchedulerState.READY
        ((_, event),) = site.board.events(0.0)
        assert event.kind is EventKind.BROKE
        assert end(agent) == (0, [])

    play(site, scenario)


@pytest.mark.slow
def test_a_member_of_a_shared_cache_is_started_again_three_times_and_then_takes_its_instance_with_it(
    site: Site, tiny_llama: Path
) -> None:
    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        deploy(site, agent, executor("a", "torch"), executor("b", "torch"), weights=tiny_llama, pool_bytes=4 << 20)
        await until_ready(site, agent, "a", "b")
        other = agent.child("agents.scheduler", "/b.json")
        for death in range(MOST_OF_MEMBERS + 1):
            assert site.failure(agent) == "", death
            before, pid = site.board.scheduler("i1", "a"), agent.child("agents.scheduler", "/a.json")
            assert before is not None
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

            def is_over(key: str = before.public_key) -> bool:
                said = site.board.scheduler("i1", "a")
                return site.failure(agent) != "" or (said is not None and said.public_key != key)

            await until(is_over)
        assert site.failure(agent).startswith("executor a: scheduler was ended by SIGKILL")
        assert (state(site, "b"), agent.child("agents.scheduler", "/b.json")) == (SchedulerState.READY, other)
        ((_, event),) = site.board.events(0.0)
        assert event.kind is EventKind.BROKE
        assert end(agent) == (0, [])
        assert list(site.folder.rglob("pool-*")) == []

    play(site, scenario)


def test_an_agent_serves_a_hub_of_the_protocol_before(
    site: Site, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "NEWEST_PROTOCOL", 1)

    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        await site.serving(agent, tiny_llama)
        assert site.board.events(0.0) == []
        deploy(site, agent, executor("a"), executor("b"))
        ((_, event),) = site.board.events(0.0)
        assert (event.kind, agent.name in event.reason) == (EventKind.BROKE, True)
        assert "of an earlier release" in event.reason
        assert end(agent) == (0, [])

    play(site, scenario)


def test_an_engine_of_a_later_release_is_refused_by_its_name_with_those_that_the_node_has(site: Site) -> None:
    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        deploy(site, agent, executor("a", "later"))
        await until(lambda: site.failure(agent) != "")
        assert "'later'" in site.failure(agent)
        assert "torch, vllm, vllm-stage, echo" in site.failure(agent)

    play(site, scenario)
