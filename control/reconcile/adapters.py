"""Adapters of the clouds, each made when it is first needed."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from control.cloud.port import Cloud
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.settings import SkyPilotSettings
from control.cloud.skypilot.site import SkyPilotSite
from control.cloud.ssh.cloud import OwnMachines
from control.cloud.ssh.own_host import OwnHost
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.installation import owner_of
from control.db.registered_models import PostgresModels
from control.db.shared_clock import shared_clock
from control.fleet_file.own_model import OwnModel
from control.lifecycle.fleet import FleetRecord
from control.market.view import StoredMarket
from control.offers.selection import Selection
from control.reconcile.daemon_home import DaemonHome
from control.reconcile.fleet_world import world_of_record
from templates_lib.values.clouds import CLOUDS, OWNED, SKYPILOT, clouds_of
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.offer import Market, Offer


@dataclass(frozen=True, slots=True)
class AdapterParts:
    """Parts that adapters are made of."""

    database: Database
    site: SkyPilotSite


def _own_machines(parts: AdapterParts, _cloud: str) -> Cloud:
    fleets, models = PostgresFleets(parts.database), PostgresModels(parts.database)
    return OwnMachines(hosts_on_record(fleets.all(), models.own()))


ADAPTERS: dict[str, Callable[[AdapterParts, str], Cloud]] = {
    SKYPILOT: lambda parts, cloud: parts.site.cloud(cloud),
    OWNED: _own_machines,
}
"""Adapter, as `CLOUDS` names it → what makes it for a cloud. The local cloud's is the daemon's own."""


@contextmanager
def makers(
    database: Database, home: DaemonHome, images: Mapping[str, str]
) -> Iterator[Mapping[str, Callable[[], Cloud]]]:
    """Yield the makers by cloud; what they have started for themselves ends with the block. `images`: as of
    `SkyPilotSettings`. Raises ValueError for the image of a cloud that none is chosen for."""
    with_images = clouds_of(SKYPILOT)
    for cloud in images:
        if cloud not in with_images:
            raise ValueError(f"nodes of cloud {cloud!r} have no image to choose; {nearest_name(cloud, with_images)}")

    now = shared_clock(database)

    def offers() -> tuple[Offer, ...]:
        market = StoredMarket.read(database, now())
        listed = [cloud for cloud, kind in CLOUDS.items() if kind.catalogue]
        return market.offers([Selection(cloud, markets=(Market.ON_DEMAND, Market.SPOT)) for cloud in listed]).offers

    site = SkyPilotSite(SkyPilotHome(home.skypilot, owner_of(database)), SkyPilotSettings(images), offers)
    try:
        parts = AdapterParts(database, site)
        yield {cloud: partial(make, parts, cloud) for name, make in ADAPTERS.items() for cloud in clouds_of(name)}
    finally:
        site.close()


def hosts_on_record(records: Iterable[FleetRecord], own: Collection[OwnModel]) -> tuple[OwnHost, ...]:
    """List own machines by name; of two fleets that name a host the first one counts. `own`: registered models. `own`:
    registered models.

    Raises the ValueError of a spec that cannot be read any more though it names hosts: without them, what runs there
    would count as lost.
    """
    hosts: dict[str, OwnHost] = {}
    for record in records:
        if OWNED not in record.spec:
            continue
        for host in world_of_record(record, own).fleet.hosts:
            hosts.setdefault(host.name, host)
    return tuple(hosts.values())
