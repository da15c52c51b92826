"""How adapters of the clouds are made, each when it is first needed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

from control.cloud.port import Cloud
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.settings import SkyPilotSettings
from control.cloud.skypilot.site import SkyPilotSite
from control.cloud.ssh.cloud import NAME, OwnMachines
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.installation import owner_of
from control.db.registered_models import PostgresModels
from control.market.sources import LIVE_SOURCES
from control.market.view import StoredMarket
from control.offers.selection import Selection
from control.reconcile.daemon_home import DaemonHome
from control.reconcile.own_hosts import hosts_on_record
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.offer import Market, Offer

SKYPILOT = (*LIVE_SOURCES, "kubernetes")


@contextmanager
def makers(
    database: Database, home: DaemonHome, images: Mapping[str, str]
) -> Iterator[Mapping[str, Callable[[], Cloud]]]:
    """By cloud; what they have started for themselves ends with the block. `images`: as of `SkyPilotSettings`. Raises
    ValueError for the image of a cloud that none is chosen for."""
    for cloud in images:
        if cloud not in SKYPILOT:
            raise ValueError(f"nodes of cloud {cloud!r} have no image to choose; {nearest_name(cloud, SKYPILOT)}")

    def offers() -> tuple[Offer, ...]:
        market = StoredMarket.read(database, datetime.now(UTC))
        return market.offers(
            [Selection(cloud, markets=(Market.ON_DEMAND, Market.SPOT)) for cloud in LIVE_SOURCES]
        ).offers

    def own_machines() -> Cloud:
        return OwnMachines(hosts_on_record(PostgresFleets(database).all(), PostgresModels(database).own()))

    site = SkyPilotSite(SkyPilotHome(home.skypilot, owner_of(database)), SkyPilotSettings(images), offers)
    try:
        yield {**{cloud: partial(site.cloud, cloud) for cloud in SKYPILOT}, NAME: own_machines}
    finally:
        site.close()
