"""Workers of the apps whose runs an orchestrator executes."""

import threading
from collections.abc import Mapping, Sequence

from control.orchestrator.measured_times import MeasuredTimes
from control.orchestrator.service_worker import ServiceWorker
from control.orchestrator.settings import OrchestratorSettings
from control.runs.record import AppVersion
from medley_sdk.flows.messages import ServiceInfo


class AppWorkers:
    """The places of the services of one app: as many workers for those with a network as for those without, as far as
    the app has such."""

    def __init__(
        self, version: AppVersion, services: Mapping[str, ServiceInfo], settings: OrchestratorSettings
    ) -> None:
        self.services = dict(services)
        self.times = MeasuredTimes(services)
        self._kinds = sorted({info.network for info in services.values()})
        self._places = settings.places
        same = {
            kind: {name: info for name, info in services.items() if info.network == kind} for kind in self._kinds
        }  # fmt: skip
        self.workers: Sequence[ServiceWorker] = [
            ServiceWorker(version, same[kind], self.times, settings, network=kind)
            for kind in self._kinds
            for _ in range(settings.places)
        ]

    def first(self, service: ServiceInfo) -> int:
        """Return the first place where a service can be computed."""
        return self._kinds.index(service.network) * self._places


class ServiceWorkers:
    """Threads may use it at the same time."""

    def __init__(self, settings: OrchestratorSettings) -> None:
        self._settings = settings
        self._apps: dict[str, AppWorkers] = {}
        self._lock = threading.Lock()

    def app(self, version: AppVersion, services: Mapping[str, ServiceInfo]) -> AppWorkers:
        with self._lock:
            found = self._apps.get(version.id)
            if found is None:
                found = self._apps[version.id] = AppWorkers(version, services, self._settings)
            return found

    def keep(self, versions: set[str]) -> None:
        """End the workers of apps that no run is of any more."""
        with self._lock:
            gone = [version for version in self._apps if version not in versions]
            ended = [worker for version in gone for worker in self._apps.pop(version).workers]
        for worker in ended:
            worker.close()

    def close(self) -> None:
        self.keep(set())
