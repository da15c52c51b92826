"""A hub on a real database, and node agents as real processes that it was told of."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from agents.channels.keys import KeyPair
from agents.messages.to_gateway import SchedulerState
from agents.messages.to_hub import NodeReport, SchedulerReport
from control.db.agent_keys import PostgresAgentKeys
from control.db.database import Database
from control.hub.board import Board
from control.hub.deployed import Deployed, ModelFiles
from control.hub.gang import Gang, GangExecutor, GangPlace
from control.hub.hub import Hub
from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from templates_lib.values.placement import ONLY
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.db.processes import ROOT, lives, wait_until
from tests.control.executor.fleets import START, Fleet, fleet, offer
from tests.control.lifecycle.worlds import START as NOON
from tests.control.lifecycle.worlds import driven
from tests.free_port import free_address

AGENT = ("-m", "agents.node")
PATIENCE_S = 240.0
"""Workers start meanwhile, which load torch, on a machine that may be busy."""
LOST_AFTER_S = 60.0


def gang(layers: int = 6, kv_blocks: int = 24) -> Gang:
    place = GangPlace("small:1/n10", 0, 0, layers, 1.0, 4, 16, kv_blocks)
    return Gang((GangExecutor((place,), "torch", "fp32"),))


@dataclass
class Agent:
    """One node of one place: its process, and what it has said on its standard error."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    log_file: Path
    process: "subprocess.Popen[bytes]" = field(init=False)

    def start(self) -> None:
        """Again, where it was stopped."""
        with self.log_file.open("ab") as output:
            self.process = subprocess.Popen(
                self.command, stdout=output, stderr=output, cwd=ROOT, env=self.environment, start_new_session=True
            )

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def child(self, module: str, about: str = "") -> int | None:
        """Pid of its child that runs `module`, with `about` in its command."""
        for each in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has ended meanwhile
                if module in each.cmdline() and about in " ".join(each.cmdline()):
                    return each.pid
        return None

    def ended(self) -> int:
        return self.process.wait(PATIENCE_S)

    def stop(self) -> None:
        """And whatever it has started: its session is its own."""
        session = self.process.pid
        self.process.kill()
        self.process.wait()
        while left := [p for p in psutil.process_iter() if _session(p.pid) == session and lives(p.pid)]:
            for each in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()


@dataclass
class Site:
    database: Database
    folder: Path
    cloud: FakeCloud = field(default_factory=lambda: FakeCloud("fake", {"small": 8}))
    keys: KeyPair = field(default_factory=KeyPair.generate)
    gateway: KeyPair = field(default_factory=KeyPair.generate)
    agents: list[Agent] = field(default_factory=list)
    hub: Hub | None = None
    gateways: dict[str, str] = field(init=False)
    """Public key → name; what is changed counts when nodes are told next."""
    bound: tuple[str, str] = field(default_factory=lambda: (free_address(), free_address()))

    def __post_init__(self) -> None:
        self.medley: Fleet = fleet(self.database, self.cloud)
        self.gateways = {self.gateway.public: "gateway"}
        self.instance = driven(self.database, EventKind.PROVISION)

    def open_hub(self) -> Hub:
        """Of a control plane that has just been started: with the same keys, where the last one was."""
        agent_keys = PostgresAgentKeys(self.database)
        self.board = Board(self.gateways, LOST_AFTER_S, time.monotonic())
        self.hub = Hub(*self.bound, self.keys, agent_keys, agent_keys.living(), self.board, lambda: NOON)
        self.bound = self.hub.endpoint, self.hub.registry_endpoint
        return self.hub

    def close(self) -> None:
        if self.hub is not None:
            self.hub.close()
        for agent in self.agents:
            agent.stop()

    def start(
        self, program: tuple[str, ...] = AGENT, *, token: str | None = None, control_key: str | None = None
    ) -> Agent:
        """The agent of the next place, with what its node would be started with but for what is given."""
        node = self.medley.executor.rent(self.instance.id, len(self.agents), offer(), START)
        secret = self.cloud.request(node.name).secrets["MEDLEY_BOOTSTRAP_TOKEN"].reveal()
        hub, registry = self.bound
        where = ("--hub", hub, "--registry", registry, f"--control-key={control_key or self.keys.public}")
        command = (sys.executable, *program, *where, "--home", str(self.folder / "nodes"))
        told = {"MEDLEY_NODE": node.name, "MEDLEY_BOOTSTRAP_TOKEN": token or secret, "OMP_NUM_THREADS": "1"}
        agent = Agent(node.name, command, os.environ | told, self.folder / f"{node.name}.log")
        agent.start()
        self.agents.append(agent)
        return agent

    def deploy(
        self, agent: Agent, weights: Path, state: InstanceState = InstanceState.LOADING, instance: str = "i1"
    ) -> None:
        """On one node; it is told at once."""
        files = ModelFiles("tiny", f"path:{weights}", 192, 256)
        self.board.deploy([Deployed(instance, state, gang(), {ONLY: files}, (agent.name,), (0,))])
        assert self.hub is not None
        self.hub.tell()

    async def serving(self, agent: Agent, weights: Path) -> None:
        """Until all of its instance is loaded; what the keeper of a fleet does is done by hand."""
        self.deploy(agent, weights)
        await until(lambda: self.state(agent) is SchedulerState.READY or self.tell())
        self.deploy(agent, weights, InstanceState.READY)

    def tell(self) -> None:
        assert self.hub is not None
        self.hub.tell()

    def report(self, agent: Agent) -> NodeReport | None:
        return self.board.report(agent.name)

    def state(self, agent: Agent) -> SchedulerState | None:
        report = self.report(agent)
        said = None if report is None else report.of(ONLY).scheduler
        status = None if said is None else said.status
        return None if status is None else status.state

    def scheduler(self, agent: Agent) -> SchedulerReport | None:
        report = self.report(agent)
        return None if report is None else report.of(ONLY).scheduler

    def failure(self, agent: Agent) -> str:
        report = self.report(agent)
        return "" if report is None else report.failure

    def connected(self, agent: Agent) -> bool:
        return agent.name in self.board.loads()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


def play(site: Site, scenario: Callable[[Site], Any]) -> None:
    async def main() -> None:
        site.open_hub()
        try:
            await scenario(site)
        finally:
            site.close()

    asyncio.run(main())


def end(agent: Agent, number: signal.Signals = signal.SIGTERM) -> tuple[int, list[int]]:
    """Its exit status, and which of its children live on: their own children end a moment after them."""
    children = [child.pid for child in psutil.Process(agent.process.pid).children(recursive=True)]
    agent.process.send_signal(number)
    status = agent.ended()
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not any(map(lives, children)))
    return status, [pid for pid in children if lives(pid)]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
