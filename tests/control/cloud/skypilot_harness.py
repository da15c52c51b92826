"""SkyPilot's real API server and SDK over the clouds of `skypilot_world`, one of each for all tests of a run."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from moto.server import ThreadedMotoServer

from control.cloud.node import NodeRequest
from control.cloud.skypilot.cloud import SkyPilotCloud
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.server import ApiServer
from control.cloud.skypilot.settings import SkyPilotSettings
from control.cloud.skypilot.site import SkyPilotSite
from templates_lib.values.offer import Market, Offer
from tests.control.cloud.harness import STOCK, request
from tests.control.cloud.skypilot_world.world import World
from tests.control.lifecycle.worlds import START

ROOT = Path(__file__).parents[3]
SETTINGS = SkyPilotSettings(
    images={"aws": "ami-12c6146b", "gcp": "projects/x/global/images/y"}, fresh_s=0.0, asked_s=0.0, sweep_s=None
)
FOREVER = ("python3", "-c", "import signal; print('up', flush=True); signal.pause()")


def offer(
    cloud: str, region: str, zone: str, instance_type: str, config: str, usd_per_hour: float
) -> tuple[Offer, ...]:
    """On demand and spot."""
    of_market = ((Market.ON_DEMAND, usd_per_hour), (Market.SPOT, round(usd_per_hour * 0.4, 4)))
    return tuple(Offer(cloud, region, zone, instance_type, config, market, usd) for market, usd in of_market)


OFFERS = (
    *offer("aws", "us-east-1", "us-east-1a", "g6.xlarge", "L4:1/n10", 0.8048),
    *offer("aws", "us-east-1", "us-east-1a", "g6e.xlarge", "L40S:1/n10", 1.861),
    *offer("gcp", "us-central1", "us-central1-a", "g2-standard-4", "L4:1/n10", 0.7064),
    *offer("gcp", "us-central1", "us-central1-a", "g2-standard-24", "L4:2/n25", 2.0008),
    *offer("runpod", "US", "US-TX-3", "1x_L4_SECURE", "L4:1/n0", 0.44),
    *offer("runpod", "US", "US-TX-3", "1x_L40S_SECURE", "L40S:1/n0", 0.86),
)


@dataclass(frozen=True, slots=True)
class WorldHome(SkyPilotHome):
    """In which SkyPilot sees another home directory, the plugin, and of vendors AWS's pretended API only."""

    aws: str

    def environment(self, port: int) -> dict[str, str]:
        users = self.path / "user"
        users.mkdir(parents=True, exist_ok=True)
        # No `super()`: it is the other class's in a slotted dataclass.
        return {
            **SkyPilotHome.environment(self, port),
            "HOME": str(users),
            "PYTHONPATH": str(ROOT),
            "SKYPILOT_SERVER_PLUGINS_CONFIG": str(self.path / "plugins.yaml"),
            "AWS_ENDPOINT_URL": self.aws,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "NO_GCE_CHECK": "true",
        }


@dataclass(frozen=True, slots=True)
class WorldSite:
    home: SkyPilotHome
    world: World
    site: SkyPilotSite

    def harness(self, cloud: str) -> "SkyPilotHarness":
        return SkyPilotHarness(self, cloud)


@contextmanager
def world_home(
    root: Path, refused: Mapping[str, str] | None = None, **machines: Any
) -> Iterator[tuple[WorldHome, World]]:
    """`refused`: cloud → why its credentials do not do; `machines`: how they are (`LocalClouds`). Nothing that is
    started in it is left."""
    aws = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    aws.start()
    host, port = aws.get_host_and_port()
    home = WorldHome(root / "skypilot", "me", f"http://{host}:{port}")
    world = World(root / "world", machines.get("networked", False))
    home.create()
    plugin = {
        "class": "tests.control.cloud.skypilot_world.plugin.LocalClouds",
        "parameters": {"world": str(world.root), "refused": dict(refused or {}), **machines},
    }
    (home.path / "plugins.yaml").write_text(json.dumps({"plugins": [plugin]}))
    try:
        yield home, world
    finally:
        ApiServer(home).stop()
        for machine in world.machines():
            world.remove(machine)
        aws.stop()
        assert left_of(home) == []


@contextmanager
def world_site(
    root: Path, refused: Mapping[str, str] | None = None, settings: SkyPilotSettings = SETTINGS, **machines: Any
) -> Iterator[WorldSite]:
    """As `world_home`, in use."""
    with world_home(root, refused, **machines) as (home, world):
        site = SkyPilotSite(home, settings, lambda: OFFERS)
        try:
            site.cloud("gcp").list({}, START)  # the first call tells SkyPilot of the offers
            yield WorldSite(home, world, site)
        finally:
            site.close()


def left_of(home: SkyPilotHome) -> list[psutil.Process]:
    """Processes that know of the home."""
    found = []
    for process in psutil.process_iter():
        try:
            lives = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
            if lives and process.environ().get("SKY_RUNTIME_DIR") == str(home.path):
                found.append(process)
        except psutil.Error:
            continue
    return found


class SkyPilotHarness:
    def __init__(self, site: WorldSite, cloud: str) -> None:
        self.site = site
        self.name = cloud
        on_demand = [o for o in OFFERS if o.cloud == cloud and o.market is Market.ON_DEMAND]
        self.small, self.large = (o.instance_type for o in on_demand)
        self.place = on_demand[0].region, on_demand[0].zone
        for instance_type in (self.small, self.large):
            site.world.stock(cloud, instance_type, STOCK)

    def cloud(self) -> SkyPilotCloud:
        return self.site.site.cloud(self.name)

    def request(
        self, name: str = "medley-i1-0-0", instance_type: str = "", command: Sequence[str] = FOREVER, **named: Any
    ) -> NodeRequest:
        asked = request(name, instance_type or self.small, command=tuple(command), **named)
        region, zone = self.place
        return replace(asked, region=region, zone=zone)

    def crash(self, name: str) -> None:
        """As a vendor that stops a machine: what its command leaves is nothing that a vendor sees."""
        with self.site.world.turn():
            self.site.world.stop(self._machine(name))

    def vanish(self, name: str) -> None:
        with self.site.world.turn():
            self.site.world.remove(self._machine(name))

    def end(self) -> None:
        cloud = self.cloud()
        for node in cloud.list({}, START):
            cloud.terminate(node.name, START)
        assert cloud.list({}, START) == ()

    def _machine(self, name: str):
        (machine,) = [m for m in self.site.world.machines() if m.cluster.startswith(f"{name}-")]
        return machine
