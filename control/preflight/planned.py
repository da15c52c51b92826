"""A plan as its launch sees it: which models go to which clouds, and what each node fetches."""

from collections.abc import Iterator
from dataclasses import dataclass

from control.planning.world import World
from templates_lib.apps.served_model import ServedModel
from templates_lib.sources.placement_kinds import executors_of
from templates_lib.values.clouds import LOCAL
from templates_lib.values.offer import Market, Offer
from templates_lib.values.placement import Executor, Stage
from templates_lib.values.plan import Plan, PlannedInstance


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    world: World
    plan: Plan

    @property
    def clouds(self) -> tuple[str, ...]:
        """Clouds that the plan takes nodes of."""
        return tuple(sorted({cloud_of(each) for each in self.plan.instances}))

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Those whose nodes are other machines than this one."""
        return tuple(cloud for cloud in self.clouds if cloud != LOCAL)

    def regions(self, cloud: str) -> tuple[str, ...]:
        zones = {each.zone for each in self.plan.instances if cloud_of(each) == cloud}
        return tuple(sorted({offer.region for offer in self.world.quotes.offers if offer.zone_id in zones}))

    def offers(self, cloud: str) -> tuple[Offer, ...]:
        """Return the offers of a cloud that nodes of the plan are rented from: machines that are sold, not promised."""
        nodes = self.plan.nodes()
        listed = (each for each in self.world.quotes.offers if each.cloud == cloud and nodes[each.key])
        return tuple(each for each in listed if not each.derived and each.market in (Market.ON_DEMAND, Market.SPOT))

    def exchanges(self, cloud: str) -> bool:
        """Tell whether nodes there exchange data: activations of an instance, or KV caches of instances."""
        if any(sum(each.nodes.values()) > 1 for each in self.plan.instances if cloud_of(each) == cloud):
            return True
        routes = {route.id: route for served in self.world.recipe.served for route in served.routes()}
        handed_over = (flow for flow in self.plan.flows if flow.route in routes and routes[flow.route].edges)
        return any(not zone or zone.partition("/")[0] == cloud for flow in handed_over for zone in flow.zones)

    def served(self) -> Iterator[tuple[ServedModel, tuple[str, ...]]]:
        """Yield each model of the fleet that has instances in the plan, with the clouds that these are in."""
        for served in self.world.recipe.served:
            clouds = {cloud_of(each) for each in self.plan.instances if serves(each, served)}
            if clouds:
                yield served, tuple(sorted(clouds))

    def stages(self, served: ServedModel) -> Iterator[tuple[PlannedInstance, Stage]]:
        """Yield the stages that run the model, of one instance of each template, zone and market."""
        for each in self.plan.instances:
            yield from ((each, stage) for executor in _own(each, served) for stage in executor.stages)

    def engines(self, served: ServedModel, cloud: str) -> tuple[str, ...]:
        """Return the engines that run the model on nodes of a cloud, by name."""
        there = (each for each in self.plan.instances if cloud_of(each) == cloud)
        return tuple(sorted({engine for each in there for engine in engines_for(each, served)}))


def cloud_of(instance: PlannedInstance) -> str:
    return instance.zone.partition("/")[0]


def engines_for(instance: PlannedInstance, served: ServedModel) -> tuple[str, ...]:
    """Return the engines of an instance that run the model; those of an instance that does not say so are taken to be
    the one that is preferred."""
    found = tuple(executor.engine for executor in _own(instance, served))
    return found or ((served.engine,) if serves(instance, served) else ())


def _own(instance: PlannedInstance, served: ServedModel) -> tuple[Executor, ...]:
    """Return the executors of an instance that run the model."""
    executors = (executors_of(instance) or ()) if serves(instance, served) else ()
    return tuple(one for one in executors if served.is_component(one.component))


def serves(instance: PlannedInstance, served: ServedModel) -> bool:
    """Tell whether the instance has capacity for a class of the model's work."""
    return any(served.class_id(phase) in instance.units_per_s for phase in served.phases)
