"""How adapters of the clouds are made, each when it is first needed."""

import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from control.cloud.port import Cloud
from control.cloud.skypilot.cloud import SkyPilotCloud
from control.cloud.skypilot.fleet import SkyPilotFleet
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.market import machine_rows
from control.cloud.skypilot.messages import Call, Reply, WriteCatalogue
from control.cloud.skypilot.process import SdkProcess
from control.cloud.skypilot.set_up import SetUp
from control.cloud.skypilot.settings import SkyPilotSettings
from control.cloud.ssh.cloud import NAME, OwnMachines
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.installation import owner_of
from control.db.registered_models import PostgresModels
from control.market.view import StoredMarket
from control.offers.selection import Selection
from control.reconcile.daemon_home import DaemonHome
from control.reconcile.own_hosts import hosts_on_record
from templates_lib.offer import Market, Offer

PRICED = ("aws", "gcp", "runpod")
SKYPILOT = (*PRICED, "kubernetes")


class _Told(SdkProcess):
    """SkyPilot, told of our offers before anything else is asked of it: it then knows the machines that plans name, and
    prices them as plans do."""

    def __init__(self, home: SkyPilotHome, offers: Callable[[], Iterable[Offer]], settings: SkyPilotSettings) -> None:
        super().__init__(home)
        self._offers = offers
        self._settings = settings
        self._telling = threading.Lock()
        self._is_told = False

    def call(self, call: Call, timeout_s: float) -> Reply:
        with self._telling:
            if not self._is_told:
                super().call(WriteCatalogue(machine_rows(self._offers())), self._settings.query_s)
                self._is_told = True
        return super().call(call, timeout_s)


def makers(database: Database, home: DaemonHome) -> dict[str, Callable[[], Cloud]]:
    """By cloud; all that SkyPilot works for share one of it."""
    sky, settings = SkyPilotHome(home.skypilot, owner_of(database)), SkyPilotSettings()

    def offers() -> tuple[Offer, ...]:
        market = StoredMarket.read(database, datetime.now(UTC))
        return market.offers([Selection(cloud, markets=(Market.ON_DEMAND, Market.SPOT)) for cloud in PRICED]).offers

    fleet = SkyPilotFleet(_Told(sky, offers, settings), settings)
    rented = {cloud: (lambda cloud=cloud: SkyPilotCloud(cloud, fleet, SetUp(sky))) for cloud in SKYPILOT}

    def own_machines() -> Cloud:
        return OwnMachines(hosts_on_record(PostgresFleets(database).all(), PostgresModels(database).own()))

    return {**rented, NAME: own_machines}
