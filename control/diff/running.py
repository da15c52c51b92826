"""An instance that exists, as a decision about it needs to know it."""

from collections.abc import Mapping
from dataclasses import dataclass

from control.diff.target import Column
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import LEAVING, Instance

_PROGRESS = {state: n for n, state in enumerate(InstanceState)}
"""The states of a life that goes well stand in their order."""


@dataclass(frozen=True, slots=True)
class Running:
    instance: Instance
    nodes: Mapping[str, int]
    """Nodes of its template: node configuration → how many. It may hold fewer yet, or no more."""
    units_per_s: Mapping[str, float]
    """Capacity by work class, once it is ready."""
    usd_per_hour: float
    """Rent of all its nodes at the prices it was launched at."""
    running: int = 0
    """Requests under way."""
    waiting: int = 0
    """Requests that it has accepted and not begun."""

    @property
    def id(self) -> str:
        return self.instance.id

    @property
    def column(self) -> Column:
        return self.instance.template_id, self.instance.zone, self.instance.market

    @property
    def requests(self) -> int:
        return self.running + self.waiting

    @property
    def is_ready(self) -> bool:
        return self.instance.state == InstanceState.READY

    @property
    def is_leaving(self) -> bool:
        return self.instance.state in LEAVING

    @property
    def is_renting(self) -> bool:
        """Nodes of it may still have to be rented."""
        return self.instance.state in (InstanceState.REQUESTED, InstanceState.PROVISIONING)

    @property
    def is_rented(self) -> bool:
        """All its nodes exist, and it is on its way to be ready."""
        return self.instance.state in (InstanceState.BOOTSTRAPPING, InstanceState.LOADING)

    @property
    def progress(self) -> int:
        """Rank how far it has come; only compared among instances that are not leaving."""
        return _PROGRESS[InstanceState(self.instance.state)]

    @property
    def missing_nodes(self) -> int:
        """Count the nodes that it will still rent."""
        return max(sum(self.nodes.values()) - len(self.instance.nodes), 0) if self.is_renting else 0

    @property
    def held_usd_per_hour(self) -> float:
        """Rent of the nodes that it has now."""
        whole = sum(self.nodes.values())
        return self.usd_per_hour * min(len(self.instance.nodes) / whole, 1.0) if whole else 0.0
