"""The whole way of a rented fleet, as far as it can be walked here.

Preflight; a launch through SkyPilot's own SDK, server, backend and runtime onto machines that are network namespaces
with addresses of their own; the set-up, with our wheel and its hash; the agent's way to the control plane; a gateway
that answers with tokens; the end. And what stops it on the way.

Not walked are a cloud's own creation of machines (moto's EC2 is asked for the account alone), its images, and a GPU:
the machines' image has a stub of `nvidia-smi`, and a `python3` that gives processors where an agent is to use CUDA.
"""

import asyncio
import hashlib
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from openai import OpenAI

from control.access.role import Role
from control.actions.measure_rented import Measurement, measure_rented
from control.cloud.errors import CloudError
from control.cloud.port import Cloud
from control.cloud.skypilot.agent_wheel import agent_wheel
from control.cloud.skypilot.set_up import SET_UP_FAILED
from control.cloud.skypilot.settings import SkyPilotSettings
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.nodes import PostgresNodes
from control.executor.node_start import NodeStart
from control.fleet.keeper_settings import KeeperSettings
from control.hub.hub import Hub
from control.lifecycle.state import InstanceState
from control.offers.quotes import Quotes
from control.overlay.identity import OverlayIdentity
from control.overlay.interface import OverlayInterface
from control.overlay.invitation import OVERLAY_PORT, OverlayInvitation
from control.overlay.place import DEVICE
from control.preflight.finding import Status
from control.preflight.planned import Planned
from control.preflight.site import Site, of_site
from control.profiles.quotation import Limits, Wanted, quote
from control.profiles.rented_nodes import Pace
from control.profiles.store import ProfileStore
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import in_fp32
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import Market, Offer
from templates_lib.values.plan import Flow, Plan
from tests.agents.engines.tiny_models import save_model
from tests.conftest import SKYPILOT_RUNTIME
from tests.control.cloud.skypilot_harness import OFFERS, SETTINGS, WorldSite, world_site
from tests.control.fleet.fleets import plan_of, planned
from tests.control.fleet.live import ControlPlane, Place
from tests.control.gateway.world import World as GatewayWorld
from tests.control.gateway.world import byte_tokenizer
from tests.control.lifecycle.worlds import START
from tests.control.planning.worlds import KEEP_SPEC, world_of

pytestmark = [pytest.mark.slow, pytest.mark.needs("netns", "rsync", "sshd", "skypilot-runtime")]

ZONE = "aws/us-east-1a"
TYPES = {"g6.xlarge": "L4:1/n10", "g6e.xlarge": "L40S:1/n10"}
TOKENS = 8
LEAST_DRIVER = 580
NO_CUDA = """\
given=() before=""
for each; do
    [ "$before" = --device ] && each=cpu
    given+=("$each") before="$each"
done
exec PYTHON "${given[@]}"\
"""
DRIVER = "echo 580.95.05"
NO_DRIVER = 'echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."; exit 9'


@dataclass
class RentedPlace(Place):
    """Nodes are rented from AWS through SkyPilot."""

    site: WorldSite = field(kw_only=True)
    invitation: OverlayInvitation | None = None
    in_flight: timedelta = KeeperSettings().in_flight
    # SkyPilot, its runtime and the node's set-up are some minutes of a processor, which tests beside this one have too.
    end_s: float = 60.0
    lost_after_s: float = 60.0
    patience_s: float = 1200.0

    def cloud(self) -> Cloud:
        return self.site.site.cloud("aws")

    def offers(self) -> tuple[Offer, ...]:
        """Told that there are some: of an offer whose count nobody knows this control plane takes none."""
        sold = [each for each in OFFERS if each.instance_type in TYPES and each.market is Market.ON_DEMAND]
        return tuple(replace(each, available_count=1) for each in sold)

    def start(self, hub: Hub) -> NodeStart:
        """As `medley reconcile` starts nodes that it rents."""
        command = ("python3", *self.agent(hub), "--home", ".medley/node", "--device", "cuda")
        engines = frozenset({"torch"})
        return NodeStart(command, engines=engines, least_driver=LEAST_DRIVER, overlay=self.invitation)

    def agent(self, hub: Hub) -> tuple[str, ...]:
        host = self.site.world.network.here if self.invitation is None else self.invitation.hub_host
        return tuple(each.replace("tcp://[::]", f"tcp://{host}") for each in super().agent(hub))

    def program(self, instance_type: str, name: str, text: str) -> None:
        """Have machines of the type have it in their image."""
        image = self.site.world.image(instance_type)
        image.mkdir(parents=True, exist_ok=True)
        (image / name).write_text(f"#!/bin/bash\n{text}\n")
        (image / name).chmod(0o755)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorldSite]:
    root = tmp_path_factory.mktemp("whole-way")
    machines = {"networked": True, "runtime": str(SKYPILOT_RUNTIME)}
    settings = SkyPilotSettings(SETTINGS.images, sweep_s=None)
    with world_site(root, settings=settings, **machines) as made, made.world.network.open():
        for instance_type in TYPES:
            made.world.stock("aws", instance_type, 1)
        yield made


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayWorld]:
    made = GatewayWorld(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def place(database: Database, site: WorldSite, gateway: GatewayWorld, tmp_path: Path) -> Iterator[RentedPlace]:
    save_model("llama", tmp_path / "weights")
    tokenizer = byte_tokenizer(tmp_path / "tokenizer")
    weights, bound = tmp_path / "weights", ("tcp://[::]:0", "tcp://[::]:0")
    made = RentedPlace(database, tmp_path, weights, tokenizer, gateway.keys.public, bound=bound, site=site)
    for instance_type in TYPES:
        made.program(instance_type, "python3", NO_CUDA.replace("PYTHON", str(site.world.python / "bin" / "python3")))
        made.program(instance_type, "nvidia-smi", DRIVER)
        made.program(instance_type, "cc", "exit 1")
    yield made
    for node in made.cloud().list({}, START):
        made.cloud().terminate(node.name, START)


def plan(*configs: str) -> Plan:
    """One instance on a node of each."""
    wanted = [replace(planned(zone=ZONE, layers=(6,), config=each), market=Market.ON_DEMAND) for each in configs]
    return plan_of(wanted, [], [Flow("chat/aggregated", (ZONE,), 1.0, 0.0)], id="p-1")


def looked_at(place: RentedPlace) -> dict[str, Status]:
    """What preflight finds of the site, by check."""
    spec = world_of(place.folder, KEEP_SPEC.format(keep="throughput"))
    world = replace(spec, quotes=replace(spec.quotes, offers=place.offers()))
    site = Site(place.site.world.network.here, {"aws": place.cloud}, START)
    return {each.name: each.status for each in of_site(Planned(world, plan("L4:1/n10")), site)}


@pytest.fixture
def overlay(place: RentedPlace) -> Iterator[OverlayInterface]:
    identity = OverlayIdentity.of_file(place.folder / "overlay.key")
    place.invitation = OverlayInvitation(identity, place.site.world.network.here)
    made = OverlayInterface(identity, OVERLAY_PORT)
    made.up()
    yield made
    subprocess.run(("ip", "link", "delete", DEVICE), check=True)


@pytest.mark.needs("wireguard", "ipv6")
def test_a_rented_node_serves_tokens_by_way_of_an_overlay_and_a_gateway_and_is_given_back(
    place: RentedPlace, gateway: GatewayWorld, database: Database, overlay: OverlayInterface
) -> None:
    _, key = PostgresApiTokens(database).create("client", Role.CLIENT, START)
    found = looked_at(place)
    assert found["account.credentials"] is Status.PASS
    assert Status.FAIL not in found.values()

    async def scenario() -> None:
        plane = ControlPlane(place, plan("L4:1/n10"))
        await plane.start()
        nodes = PostgresNodes(database)
        await plane.until(lambda: overlay.admit(nodes.held("aws")) or plane.keeper.ready)
        instance = await plane.until_ready()
        await plane.until(place.table.exists)
        await asyncio.to_thread(gateway.start_gateway)
        await asyncio.to_thread(gateway.wait_for, f'medley_gateway_instance_up{{instance="{instance}"}}', 1.0)
        client = OpenAI(base_url=f"{gateway.url}/v1", api_key=key.reveal(), max_retries=5, timeout=120)
        ask = client.completions.create
        answer = await asyncio.to_thread(ask, model="chat", prompt="Hello", max_tokens=TOKENS, temperature=0)
        assert answer.usage is not None
        assert answer.usage.completion_tokens == TOKENS

        (machine,) = place.site.world.machines()
        said = plane.board.scheduler(instance)
        assert said is not None
        address = overlay.identity.node(next(iter(nodes.held("aws")))).address
        assert said.endpoint.startswith(f"tcp://[{address}]:"), "gateways come through the tunnel"
        assert said.stages.startswith(f"tcp://{machine.address}:"), "its own address, as SkyPilot told it"
        of_node = place.site.world.home(machine.id) / ".medley"
        (wheel,) = of_node.glob("*.whl")
        assert hashlib.sha256(wheel.read_bytes()).hexdigest() == agent_wheel().sha256
        assert any((of_node / "code" / "agents").glob("__pycache__/*")), "the wheel's code is what runs"
        assert not (of_node / "secrets").exists()
        assert await plane.end() == {}

    asyncio.run(scenario())
    assert place.cloud().list({}, START) == ()
    assert place.site.world.machines() == []


def test_nodes_without_driver_or_with_a_full_disk_are_named_by_their_logs_and_given_back_and_no_offer_is_blamed(
    place: RentedPlace,
) -> None:
    place.program("g6e.xlarge", "nvidia-smi", NO_DRIVER)
    place.site.world.disk("g6.xlarge", 1 + len(agent_wheel().content) // 2**20)  # holds our wheel, not what is in it
    words = ("No space left on device", "couldn't communicate with the NVIDIA driver")
    blamed: list[str] = []

    def refused(fleet: str, offer: Offer, error: CloudError) -> None:
        blamed.append(f"{offer.key}: {error}")

    async def scenario() -> None:
        plane = ControlPlane(place, plan(*TYPES.values()))
        plane.refused = refused
        await plane.start()
        failed = partial(plane.reasons, InstanceState.FAILED)
        await plane.until(failed)
        plane.launch_no_more()
        await plane.until(lambda: all(any(each in why for why in failed()) for each in words))
        assert all(SET_UP_FAILED in why for why in failed())
        assert await plane.end() == {}

    try:
        asyncio.run(scenario())
    finally:
        place.site.world.disk("g6.xlarge", 0)
    assert blamed == []
    assert place.cloud().list({}, START) == ()
    assert place.site.world.machines() == []


def test_a_rented_node_measures_itself_and_is_given_back_and_without_a_gpu_it_is_a_trial(
    site: WorldSite, tmp_path: Path
) -> None:
    """`medley profile run`: what the node found comes by its log, through SkyPilot."""
    saved = save_model("llama", tmp_path / "weights", max_position_embeddings=64)  # so few points are measured
    model = model_from_hf_config(saved.config.to_dict(), "tiny", "none")
    sold = [each for each in OFFERS if each.instance_type == "g6e.xlarge" and each.market is Market.ON_DEMAND]
    quotes = Quotes(tuple(sold), {each.node_config: node_config_from_id(each.node_config) for each in sold})
    quotation = quote(quotes, Wanted("aws", "L40S:1", Market.ON_DEMAND), Limits(50.0, 120.0))
    asked = Measurement(quotation, in_fp32(model), "torch", f"path:{tmp_path / 'weights'}", "cpu")
    store = ProfileStore(tmp_path / "profiles")
    pace = Pace(lambda: datetime.now(UTC), time.sleep, lambda answer, seconds: void(wait([answer], seconds)), 1.0)
    stored = measure_rented(asked, site.site.cloud("aws"), "me", store, pace, lambda *_: None)
    assert store.all() == (stored,)
    assert stored.profile.device == "cpu"
    assert stored.rented is not None
    assert stored.rented.gpus == 0
    assert site.world.machines() == []
    assert store.rentals.all() == ()


def void(_: object) -> None:
    """Say nothing of it."""
