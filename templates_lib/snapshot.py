"""Everything that a solve may see."""

from dataclasses import dataclass

from templates_lib.instance import Instance
from templates_lib.offer import Offer
from templates_lib.settings import Settings
from templates_lib.supply import SupplyPool
from templates_lib.traffic import TrafficPrice
from templates_lib.work import Demand, Route


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An immutable view of the world. With the library it names and its seed it determines one plan."""

    version: str
    """Content hash of the rest."""
    now: str
    """ISO 8601, UTC."""
    offers: tuple[Offer, ...]
    pools: tuple[SupplyPool, ...]
    traffic: tuple[TrafficPrice, ...]
    instances: tuple[Instance, ...]
    routes: tuple[Route, ...]
    demand: tuple[Demand, ...]
    settings: Settings
    library_version: str
    cost_model_fingerprint: str
