"""`python -m agents.node` against a hub: who is let in, what it runs, and what it leaves."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agents.channels.address import Address
from agents.channels.dialer import Dialer
from agents.channels.keys import KeyPair
from agents.messages.to_gateway import ToGateway
from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from tests.agents.node.sites import PATIENCE_S, Agent, Site, end, play, until


class Silent:
    """Of a gateway that asks for nothing."""

    def up(self) -> None: ...

    def received(self, message: object) -> None: ...

    def down(self, reason: str) -> None: ...


NEWER = (
    "-c",
    "import agents.messages.session as s; s.OLDEST_PROTOCOL = s.NEWEST_PROTOCOL = 99\n"
    "import runpy; runpy.run_module('agents.node', run_name='__main__')",
)


def refused(agent: Agent) -> str:
    """Its last words: one line, of its own, and no traceback."""
    assert agent.ended() == 1
    assert "Traceback" not in agent.log
    return agent.log.splitlines()[-1]


def test_an_agent_registers_reports_and_ends_when_it_is_told_to(site: Site) -> None:
    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        assert f"registered as {agent.name}" in agent.log
        key = site.folder / "nodes" / agent.name / "node.key"
        assert key.stat().st_mode & 0o077 == 0
        assert key.parent.stat().st_mode & 0o077 == 0
        assert end(agent) == (0, [])

    play(site, scenario)


def test_an_agent_that_is_started_again_is_the_same_node(site: Site) -> None:
    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: agent.log.count(f"connected to {site.bound[0]}") == 1)
        agent.stop()
        agent.start()
        await until(lambda: agent.log.count(f"connected to {site.bound[0]}") == 2)
        assert agent.log.count(f"registered as {agent.name}") == 2

    play(site, scenario)


@pytest.mark.parametrize(
    ("program", "given", "words"),
    [
        (("-m", "agents.node"), {"token": "0" * 64}, "the registry refuses us: an agent sent a bootstrap token"),
        (("-m", "agents.node"), {"control_key": KeyPair.generate().public}, "does not have the key that we expect"),
        (("-m", "agents.node"), {"control_key": "short"}, "must be 40 characters of Z85 text"),
        (NEWER, {}, "protocol 99 to 99 offered"),
    ],
    ids=["token", "control key", "no key", "protocol"],
)
def test_who_cannot_be_known_is_refused_and_says_why_and_others_are_let_in(
    site: Site, program: tuple[str, ...], given: dict[str, str], words: str
) -> None:
    async def scenario(site: Site) -> None:
        stranger, other = site.start(program, **given), site.start()
        await until(lambda: stranger.process.poll() is not None)
        last = refused(stranger)
        assert last.startswith("node: ")
        assert words in last
        await until(lambda: site.connected(other))
        assert not site.connected(stranger)

    play(site, scenario)


def test_an_agent_waits_for_a_control_plane_that_is_not_there_yet(site: Site) -> None:
    async def scenario(site: Site) -> None:
        assert site.hub is not None
        site.hub.close()
        agent = site.start()
        await until((site.folder / "nodes" / agent.name / "node.key").exists)
        site.open_hub()
        await until(lambda: site.connected(agent))

    play(site, scenario)


@pytest.mark.slow
def test_a_scheduler_that_runs_lets_in_whom_the_control_plane_names_now(site: Site, tiny_llama: Path) -> None:
    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        await site.serving(agent, tiny_llama)
        said, keys = site.scheduler(agent), KeyPair.generate()
        assert said is not None
        running = agent.child("agents.scheduler")
        dialer = Dialer(Address(said.endpoint, said.public_key), keys, "gateway", ToGateway, Silent())
        try:
            await until(lambda: dialer.refusal is not None)
            site.gateways[keys.public] = "gateway-2"
            await until(lambda: site.tell() or dialer.is_up)
            del site.gateways[keys.public]
            await until(lambda: site.tell() or not dialer.is_up)
        finally:
            dialer.close()
        assert agent.child("agents.scheduler") == running

    play(site, scenario)


def test_work_that_cannot_be_done_fails_with_the_name_of_the_file_and_other_work_can_follow(site: Site) -> None:
    corrupt = site.folder / "corrupt"
    corrupt.mkdir()
    (corrupt / "config.json").write_text('{"model_type": "llama"')
    (corrupt / "model.safetensors").write_bytes(os.urandom(4096))
    missing = site.folder / "not-here"

    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        site.deploy(agent, missing)
        await until(lambda: site.failure(agent) or site.tell())
        ((instance, event),) = site.board.events(0.0)
        assert (instance, event.kind) == ("i1", EventKind.BROKE)
        assert f"{missing} does not exist" in event.reason
        assert agent.name in event.reason
        scheduler = agent.child("agents.scheduler")
        site.deploy(agent, corrupt, instance="i2")
        await until(lambda: site.failure(agent) or site.tell())
        assert str(corrupt) in site.failure(agent)
        assert "Traceback" not in site.failure(agent)
        assert agent.child("agents.scheduler") != scheduler
        assert end(agent) == (0, [])

    play(site, scenario)


def test_when_its_scheduler_is_killed_the_instance_fails_and_the_node_ends_clean(site: Site, tiny_llama: Path) -> None:
    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        site.deploy(agent, tiny_llama)  # nothing else of it fails, however late the kill comes
        await until(lambda: agent.child("agents.scheduler"))
        pid = agent.child("agents.scheduler")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: site.failure(agent))
        assert site.failure(agent).startswith("scheduler was ended by SIGKILL")
        assert end(agent, signal.SIGINT) == (0, [])

    play(site, scenario)


def test_while_the_hub_is_away_what_runs_goes_on_and_nothing_starts_again(site: Site, tiny_llama: Path) -> None:
    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        await site.serving(agent, tiny_llama)
        pids = [agent.child(module) for module in ("agents.scheduler", "agents.stage")]
        before = site.board.scheduler("i1")
        assert site.hub is not None
        assert before is not None
        site.hub.close()
        site.open_hub()
        site.deploy(agent, tiny_llama, InstanceState.READY)
        await until(lambda: site.board.scheduler("i1"))
        after = site.board.scheduler("i1")
        assert after is not None
        assert (after.endpoint, after.stages, after.public_key) == (before.endpoint, before.stages, before.public_key)
        assert [agent.child(module) for module in ("agents.scheduler", "agents.stage")] == pids
        site.deploy(agent, tiny_llama, InstanceState.DRAINING)
        await until(lambda: site.board.events(0.0))
        assert [event.kind for _, event in site.board.events(0.0)] == [EventKind.DRAINED]
        assert end(agent) == (0, [])

    play(site, scenario)


def test_what_a_node_was_started_with_is_complete_or_named(tmp_path: Path, site: Site) -> None:
    known = {k: v for k, v in os.environ.items() if not k.startswith("MEDLEY_")}
    arguments = ["--hub", "tcp://127.0.0.1:1", "--registry", "tcp://127.0.0.1:1", "--control-key=" + "k" * 40]
    for environment, words in (
        ({}, "has no MEDLEY_NODE"),
        ({"MEDLEY_NODE": "n"}, "has no MEDLEY_BOOTSTRAP_TOKEN"),
        ({"MEDLEY_NODE": "n", "MEDLEY_BOOTSTRAP_TOKEN": "t", "MEDLEY_NODE_THREADS": "x"}, "invalid literal"),
    ):
        run = subprocess.run(
            [sys.executable, "-m", "agents.node", *arguments, "--home", str(tmp_path)],
            env=known | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert run.returncode == 1
        assert run.stderr.startswith("node: ")
        assert words in run.stderr
        assert len(run.stderr.splitlines()) == 1
