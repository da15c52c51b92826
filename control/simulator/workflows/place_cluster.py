"""Places of several machines, and what it takes to bring results from one to another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from control.simulator.workflows.service_place import ServicePlace
from control.simulator.workflows.simulated_run import SimulatedService
from policies.workflows.call_dispatch import Cell


@dataclass(frozen=True, slots=True)
class PlaceLinks:
    """Time of a result on its way; on its own place it takes none."""

    latency_s: float
    within_mib_per_s: float
    """Between places of one machine."""
    across_mib_per_s: float
    """Between machines."""


class PlaceCluster:
    def __init__(
        self,
        services: Mapping[str, SimulatedService],
        places: int,
        *,
        memory_gib: float,
        links: PlaceLinks,
        places_per_machine: int = 8,
    ) -> None:
        self.services = services
        self.places = [ServicePlace(memory_gib, services) for _ in range(places)]
        machine = np.arange(places) // places_per_machine
        is_near = machine[:, None] == machine[None, :]
        self._s_per_mib = np.where(is_near, 1 / links.within_mib_per_s, 1 / links.across_mib_per_s)
        self._latency_s = np.full((places, places), links.latency_s)
        np.fill_diagonal(self._s_per_mib, 0.0)
        np.fill_diagonal(self._latency_s, 0.0)
        self.now_s = 0.0
        self.load_soon: Callable[[int], None] = lambda _: None
        """Called with a place that was asked to load something; whose clock runs sets it."""

    def transfer_s(self, service: SimulatedService) -> NDArray[np.float64]:
        """(places, places) from where a result of the service was made to where it is taken"""
        taken_s: NDArray[np.float64] = self._latency_s + self._s_per_mib * service.result_mib
        return taken_s

    def cell(self) -> Cell:
        """Return the places as a dispatch sees them now."""
        places = [place.expected(self.now_s) for place in self.places]
        return Cell(
            self.now_s, self.services, places, lambda name: self.transfer_s(self.services[name]), loads_beside=True
        )

    def want(self, place: int, service: str, *, pinned: bool = False) -> None:
        """Have a place load a service."""
        if pinned:
            self.places[place].pinned.add(service)
        self.places[place].want(self.services[service])
        self.load_soon(place)
