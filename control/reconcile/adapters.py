"""How adapters of the clouds are made, each when it is first needed."""

from collections.abc import Callable

from control.cloud.port import Cloud
from control.db.database import Database
from control.db.installation import owner_of
from control.reconcile.daemon_home import DaemonHome

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

    return {cloud: (lambda cloud=cloud: made(cloud)) for cloud in SKYPILOT}  # type: ignore[misc]
