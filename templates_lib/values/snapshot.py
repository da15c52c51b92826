"""Everything that a solve may see."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from templates_lib.values.disks import NO_DISKS, Disks
from templates_lib.values.instance import LEAVING, Instance
from templates_lib.values.offer import Offer
from templates_lib.values.settings import Settings
from templates_lib.values.supply import ROUNDING, SupplyPool
from templates_lib.values.traffic import TrafficPrice
from templates_lib.values.work import Demand, Route


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
    disks: Disks | UnsetType = UNSET
    """Disks that plans are charged for; unset: none, and the snapshot's hash is what it was before there were any."""

    barred: dict[str, dict[str, tuple[str, ...]]] | UnsetType = UNSET
    """Component → engine → clouds that no template of it by this engine may be in: their nodes do not start it. Unset:
    there are none."""

    def may_be_at(self, cloud: str, component: str, engines: str) -> bool:
        """Tell whether templates of a component by these engines (`engine_set`) may be in a cloud."""
        barred = {} if isinstance(self.barred, UnsetType) else self.barred.get(component, {})
        return cloud not in barred.get(engines, ())

    @property
    def charged_disks(self) -> Disks:
        return NO_DISKS if isinstance(self.disks, UnsetType) else self.disks

    def staying(self) -> tuple[Instance, ...]:
        """The instances that a plan may keep."""
        return tuple(i for i in self.instances if i.state not in LEAVING)

    def held_nodes(self) -> Counter[str]:
        """Nodes of the instances that stay, by offer key."""
        return Counter(node.offer for instance in self.staying() for node in instance.nodes)

    def more_nodes(self, offer: Offer) -> int:
        """Nodes of an offer that can be had beside those held: `max_unproven_nodes` where nobody knows."""
        known = offer.available_count
        return self.settings.guardrails.max_unproven_nodes if known is None else known

    def gives(self, nodes: Mapping[str, int]) -> bool:
        """Tell whether `nodes`, by offer key and with those held, can be had: of each offer, and of what offers
        share."""
        most = self.held_nodes()
        most.update({offer.key: self.more_nodes(offer) for offer in self.offers})
        enough = all(count <= most[key] for key, count in nodes.items())
        return enough and all(pool.taken(nodes) <= pool.limit + ROUNDING for pool in self.pools)
