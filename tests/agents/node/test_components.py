"""A node that runs executors of components: real encoders, with the tensor sidecar that they share."""

import os
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest

from agents.messages.component_work import Encode, Encoded, TensorAt
from agents.messages.to_gateway import SchedulerState
from agents.tensors.client import TensorClient
from agents.transfer.errors import LinkLostError
from control.hub.gang import GangExecutor, gang_of
from control.lifecycle.state import InstanceState
from templates_lib.sources.graph_record import CELL, GpuExecutor, GraphRecord
from templates_lib.values.template import Software
from tests.agents.engines.components.tiny_graphs import save_graph
from tests.agents.node.sites import Agent, Site, end, play, until
from tests.agents.node.test_units import deploy, gateway_of, state, until_ready

pytestmark = pytest.mark.slow

EYES = "0.vision", "1.vision"


def cell() -> tuple[GangExecutor, ...]:
    group = GpuExecutor(("vision",), 1, ((0,), (1,)), {"vision/image": 4})
    record = GraphRecord(CELL, Software("dino", "r", "fp32", "components", "request-static-v1"), "s", "f", (group,), ())
    return gang_of(record.template({"small:2/n10": 1})).executors


def sidecar_of(agent: Agent) -> tuple[int, str]:
    """Its process, and its name."""
    pid = agent.child("agents.tensors")
    assert pid is not None
    command = psutil.Process(pid).cmdline()
    return pid, command[command.index("--name") + 1]


async def encoded(site: Site, agent: Agent, executor: str, attempt: int) -> None:
    """One picture becomes rows in the sidecar of the node."""
    tensors = TensorClient(sidecar_of(agent)[1], "front")
    try:
        tensors.put(f"picture-{attempt}", np.zeros((3, 28, 28), np.float32))
        asked = Encode(attempt, "r", "dino", "vision", TensorAt(f"picture-{attempt}"), f"rows-{attempt}", 60.0)
        async with gateway_of(site, executor) as gateway:
            gateway.send(asked)
            await gateway.until(lambda: gateway.of(Encoded))
        assert tensors.take(f"rows-{attempt}").array.shape == (17, 48)
    finally:
        tensors.close()


def test_executors_and_their_sidecar_are_each_mended_in_place_and_nothing_stays(site: Site, tmp_path: Path) -> None:
    save_graph("dinov2", tmp_path / "weights")

    async def scenario(site: Site) -> None:
        agent, both = site.start(), cell()
        await until(lambda: site.connected(agent))
        deploy(site, agent, *both, weights=tmp_path / "weights", model="dino")
        await until_ready(site, agent, *EYES)
        deploy(site, agent, *both, weights=tmp_path / "weights", model="dino", state=InstanceState.READY)
        for attempt, executor in enumerate(EYES):
            await encoded(site, agent, executor, attempt)

        pid, name = sidecar_of(agent)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: agent.child("agents.tensors") not in (None, pid))
        assert sidecar_of(agent)[1] == name
        await until(lambda: is_there(name))
        assert all(state(site, executor) is SchedulerState.READY for executor in EYES)
        await encoded(site, agent, EYES[1], 6)

        victim, before = agent.child("agents.executor", f"/{EYES[0]}.json"), site.board.scheduler("i1", EYES[0])
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        await until(lambda: site.board.scheduler("i1", EYES[0]) not in (None, before))
        await until(lambda: state(site, EYES[0]) is SchedulerState.READY)
        await encoded(site, agent, EYES[0], 7)
        assert site.failure(agent) == ""
        assert site.board.events(0.0) == []
        assert end(agent) == (0, [])
        assert not is_there(name)

    play(site, scenario)


def is_there(name: str) -> bool:
    """Whether there is a sidecar of that name."""
    try:
        TensorClient(name, "looks").close()
    except LinkLostError:
        return False
    return True
