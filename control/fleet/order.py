"""Order of a fleet: what is to be kept running of it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from control.diff.limits import ChangeLimits
from control.diff.supply import Supply
from control.diff.target import Column, Target
from control.executor.node_start import NodeStart
from control.hub.deployed import ModelFiles
from templates_lib.values.disks import NO_DISKS, Disks
from templates_lib.values.instance import LEAVING, Instance


@dataclass(frozen=True, slots=True, eq=False)
class FleetOrder:
    name: str
    wanted: tuple[Target, ...]
    earlier: tuple[Target, ...] = ()
    """Targets of plans before this one, whose instances may still run."""
    supply: Supply = field(default_factory=lambda: Supply((), {}))
    """Offers that may be rented, and how much of each."""
    files: dict[str, ModelFiles] = field(default_factory=dict)
    """Files of each model, by its name."""
    memory_mib: dict[str, int] = field(default_factory=dict)
    """Node configuration → for weights and KV cache; others have all of theirs."""
    starts: dict[str, NodeStart] = field(default_factory=dict)
    """Cloud → what a new node of it runs; of others nothing is rented."""
    disk_gib: dict[str, int] = field(default_factory=dict)
    """Template → disk of its nodes, where it is known."""
    disks: Disks = NO_DISKS
    """What its disks cost."""
    limits: ChangeLimits = field(default_factory=ChangeLimits)
    acts: bool = True
    """False, as in mode observe: nothing is launched or drained. What has failed is given back nevertheless, and what
    runs goes on serving."""

    def wants(self, instance: Instance) -> bool:
        """Tell whether the plan has an instance like it."""
        at = column(instance)
        return any(each.column == at for each in self.wanted)

    def without(self, offer: str) -> "FleetOrder":
        """The same, with nothing more rented of an offer that was refused: until another look at the market says so."""
        sold = tuple(each for each in self.supply.offers if each.key != offer)
        return replace(self, supply=replace(self.supply, offers=sold))

    def is_met(self, instances: Iterable[Instance]) -> bool:
        """Tell whether as many of each column as are wanted, and no others, are there or on their way. `instances`: of
        the fleet, those on their way out included."""
        there = Counter(column(instance) for instance in instances if instance.state not in LEAVING)
        return there == Counter({each.column: each.count for each in self.wanted})

    def of(self, instance: Instance) -> Target | None:
        """Find what an instance is; None: no plan that is known has it."""
        at = column(instance)
        return next((each for each in (*self.wanted, *self.earlier) if each.column == at), None)


def column(instance: Instance) -> Column:
    return instance.template_id, instance.zone, instance.market
