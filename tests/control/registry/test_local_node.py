"""From a wish to a known node: rented on the local cloud, it registers by itself with what it was started with."""

import asyncio
import sys
from pathlib import Path

from agents.channels.keys import KeyPair
from control.cloud.local.cloud import LocalCloud
from control.db.agent_keys import PostgresAgentKeys
from control.db.database import Database
from control.executor.node_start import NodeStart
from control.executor.provision import NodePlace, provision
from control.executor.wind_down import wind_down
from control.lifecycle.event import Event, EventKind
from control.registry.registry import Registry
from tests.agents.channels.channel_ends import FAST
from tests.control.cloud.harness import KINDS
from tests.control.executor.fleets import fleet, offer
from tests.control.lifecycle.worlds import START as NOON
from tests.control.lifecycle.worlds import requested

AGENT = """
import asyncio, os, signal
from agents.channels.address import Address
from agents.channels.keys import KeyPair
from agents.registration import register

registry = Address(os.environ["REGISTRY"], os.environ["REGISTRY_KEY"])
token = os.environ.pop("MEDLEY_BOOTSTRAP_TOKEN")
node = asyncio.run(register(registry, token, KeyPair.generate(), 240))
assert node == os.environ["MEDLEY_NODE"], node
print(node, flush=True)
signal.pause()
"""


def test_nodes_of_the_local_cloud_register_and_are_gone_with_their_keys(database: Database, tmp_path: Path) -> None:
    cloud = LocalCloud(tmp_path / "local-cloud", KINDS)
    medley, instance = fleet(database, cloud), requested(database)
    keys = PostgresAgentKeys(database)

    async def scenario() -> set[str]:
        known: asyncio.Queue[str] = asyncio.Queue()
        server = KeyPair.generate()
        registry = Registry("tcp://127.0.0.1:0", server, keys, lambda: NOON, known.put, FAST)
        where = {"REGISTRY": registry.endpoint, "REGISTRY_KEY": server.public}
        place = NodePlace((offer("local"),), NodeStart((sys.executable, "-c", AGENT), where))
        provision(medley.instances, medley.nodes, medley.executor, instance.id, (place, place))
        try:
            async with asyncio.timeout(240):
                return {await known.get(), await known.get()}
        finally:
            registry.close()

    try:
        names = asyncio.run(scenario())
        found = medley.instances.load(instance.id)
        assert names == {node.id for node in found.nodes} == set(keys.living().values())
        assert found.state == "bootstrapping"
        medley.instances.apply(instance.id, Event(EventKind.AGENTS_UP, "all have registered"), NOON)
    finally:
        done = wind_down(medley.instances, medley.executor, instance.id, "seen enough")
    assert (done.instance.state, done.left) == ("terminated", {})
    assert (cloud.list({}, NOON), keys.living()) == ((), {})
