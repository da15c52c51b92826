"""SkyPilot for one control plane: all that adapters of its clouds share."""

import threading
from collections.abc import Callable, Iterable

from control.cloud.skypilot.cloud import SkyPilotCloud
from control.cloud.skypilot.fleet import SkyPilotFleet
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.market import machine_rows
from control.cloud.skypilot.messages import Call, Reply, WriteCatalogue
from control.cloud.skypilot.process import SdkProcess
from control.cloud.skypilot.set_up import SetUp
from control.cloud.skypilot.settings import SkyPilotSettings
from templates_lib.values.offer import Offer


class SkyPilotSite:
    """SkyPilot of one control plane, with its clouds. Nothing is started before the first call to a cloud.
    Thread-safe."""

    def __init__(self, home: SkyPilotHome, settings: SkyPilotSettings, offers: Callable[[], Iterable[Offer]]) -> None:
        """`offers`: all that may be rented through it, asked for once."""
        self._process = _Told(home, offers, settings)
        self._fleet = SkyPilotFleet(self._process, settings)
        self._set_up = SetUp(home)

    def cloud(self, name: str) -> SkyPilotCloud:
        return SkyPilotCloud(name, self._fleet, self._set_up)

    def close(self) -> None:
        """SkyPilot's server runs on, with what it has under way (`control.cloud.skypilot.server`)."""
        self._process.close()


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
