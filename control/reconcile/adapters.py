"""How adapters of the clouds are made, each when it is first needed."""

from collections.abc import Callable

from control.cloud.port import Cloud
from control.cloud.ssh.cloud import NAME, OwnMachines
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.installation import owner_of
from control.db.registered_models import PostgresModels
from control.reconcile.daemon_home import DaemonHome
from control.reconcile.own_hosts import hosts_on_record

SKYPILOT = ("aws", "gcp", "runpod", "kubernetes")


def makers(database: Database, home: DaemonHome) -> dict[str, Callable[[], Cloud]]:
    """By cloud; all that SkyPilot works for share one of it."""
    from control.cloud.skypilot.cloud import SkyPilotCloud
    from control.cloud.skypilot.fleet import SkyPilotFleet
    from control.cloud.skypilot.home import SkyPilotHome
    from control.cloud.skypilot.process import SdkProcess
    from control.cloud.skypilot.set_up import SetUp
    from control.cloud.skypilot.settings import SkyPilotSettings

    sky = SkyPilotHome(home.skypilot, owner_of(database))
    shared: list[SkyPilotFleet] = []

    def made(cloud: str) -> Cloud:
        if not shared:
            shared.append(SkyPilotFleet(SdkProcess(sky), SkyPilotSettings()))
        return SkyPilotCloud(cloud, shared[0], SetUp(sky))

    rented = {cloud: (lambda cloud=cloud: made(cloud)) for cloud in SKYPILOT}

    def own_machines() -> Cloud:
        return OwnMachines(hosts_on_record(PostgresFleets(database).all(), PostgresModels(database).own()))

    return {**rented, NAME: own_machines}
