"""The network between nodes and the control plane is cut: what serves goes on, and nothing is lost or there twice."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from control.db.database import Database
from control.db.nodes import PostgresNodes
from control.lifecycle.state import InstanceState
from tests.agents.engines.tiny_models import save_model
from tests.control.fleet.fleets import planned
from tests.control.fleet.live import ControlPlane, Place, a_plan
from tests.control.gateway.world import byte_tokenizer
from tests.control.lifecycle.worlds import START

HERE, THERE = "10.213.7.1", "10.213.7.2"
LOST_AFTER_S = 12.0
"""Counted once a connection is known to be dead, which takes the channel's own patience before."""
PLAN = a_plan("plan-1", planned(1, layers=(4, 2)))


def ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True, capture_output=True)


class Link:
    """A namespace in which nodes run, and the wire to it."""

    def __init__(self) -> None:
        self.name = f"medley{os.getpid()}"
        self._end = f"mdl{os.getpid()}"[:15]
        ip("netns", "add", self.name)
        ip("link", "add", self._end, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("addr", "add", f"{HERE}/30", "dev", self._end)
        ip("-n", self.name, "addr", "add", f"{THERE}/30", "dev", "eth0")
        ip("-n", self.name, "link", "set", "lo", "up")
        ip("-n", self.name, "link", "set", "eth0", "up")
        self.mend()

    def cut(self) -> None:
        ip("link", "set", self._end, "down")

    def mend(self) -> None:
        ip("link", "set", self._end, "up")

    def remove(self) -> None:
        ip("netns", "delete", self.name)


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link()
    yield made
    made.remove()


@pytest.fixture
def place(database: Database, link: Link, tmp_path: Path) -> Iterator[Place]:
    save_model("llama", tmp_path / "weights")
    made = Place(
        database,
        tmp_path,
        tmp_path / "weights",
        byte_tokenizer(tmp_path / "tokenizer"),
        "k" * 40,
        bound=(f"tcp://{HERE}:0", f"tcp://{HERE}:0"),
        prefix=("ip", "netns", "exec", link.name),
        node_environment={"MEDLEY_NODE_ADDRESS": THERE},
        lost_after_s=LOST_AFTER_S,
    )
    yield made
    made.give_back()


@pytest.mark.slow
@pytest.mark.needs("netns")
def test_a_cut_network_costs_nothing_when_it_is_short_and_an_instance_when_it_is_long(
    place: Place, link: Link, database: Database
) -> None:
    cloud = place.cloud()

    def nodes() -> set[str]:
        return {node.name for node in cloud.list({}, START)}

    async def scenario() -> None:
        plane = ControlPlane(place, PLAN)
        await plane.start()
        first = await plane.until_ready()
        at_first = nodes()

        # Short: nodes are not heard of, keep what they have, and are back.
        heard = plane.board.loads
        link.cut()
        await plane.until(lambda: not heard())
        link.mend()
        await plane.until(lambda: set(heard()) == at_first)
        assert plane.keeper.ready == {first}
        assert nodes() == at_first
        assert plane.reasons(InstanceState.FAILED) == []

        # Long: the instance is given up, its nodes are ended and others rented, which come up once they can.
        link.cut()
        await plane.until(lambda: plane.reasons(InstanceState.FAILED))
        assert "is silent for" in plane.reasons(InstanceState.FAILED)[0]
        link.mend()
        second = await plane.until_ready(but=first)
        await plane.until(lambda: not at_first & nodes())
        held = set(PostgresNodes(database).held("local"))
        assert nodes() == held
        assert len(held) == len(at_first)
        assert plane.keeper.ready == {second}
        assert await plane.end() == {}
        assert nodes() == set()

    asyncio.run(scenario())
