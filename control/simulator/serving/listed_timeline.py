"""A plan of listed templates as a timeline: each instance is a station of batches with the capacity that is listed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated

import msgspec

from control.fleet.routing import routed_route
from control.planning.recipe import ListedRecipe
from control.simulator.serving.batch_model import BatchModel
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.zoneless_flows import anywhere
from policies.routing_table import RoutedInstance, RoutedModel, RoutedRoute
from templates_lib.apps.app import serving_id
from templates_lib.sources.listed_source import ListedTemplate
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.plan import Plan
from templates_lib.values.work import Route


@dataclass(frozen=True, slots=True)
class Batching:
    """What a placement may say of its batches."""

    batch: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    """Calls in one of them. 0: one where it serves a single work class, else all that wait: of several classes only a
    mixture is what a point promises."""
    lanes: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Batches at once."""
    start_ms: Annotated[float, msgspec.Meta(ge=0, le=3.6e6)] = 0.0
    """Time that a batch takes whatever is in it."""


def timeline_of_listed(plan: Plan, recipe: ListedRecipe, routes: Sequence[Route], length_s: float) -> FleetTimeline:
    """Everything that the plan wants is there from the start and stays; an app is a request type that routes serve.

    Raises ValueError for templates that the recipe does not list, and for placements that say of batches what cannot
    be."""
    listed = {each.template().id: each for each in recipe.templates}
    stations: dict[str, BatchModel] = {}
    lives: list[InstanceLife] = []
    members: list[RoutedInstance] = []
    for number, planned in enumerate(plan.instances):
        if planned.template_id not in listed:
            raise ValueError(f"plan {plan.id} wants template {planned.template_id}, which the recipe does not list")
        if planned.template_id not in stations:
            stations[planned.template_id] = station_of(listed[planned.template_id], routes)
        rates = {name: rate for name, rate in planned.units_per_s.items() if rate > 0}
        for copy in range(planned.count if rates else 0):
            name = f"{planned.model}/{planned.phase}/{planned.zone}/{number}.{copy}"
            price = planned.usd_per_hour / planned.count
            station = stations[planned.template_id]
            life = InstanceLife(name, planned.model, planned.phase, planned.zone, station, usd_per_hour=price)
            lives.append(life)
            members.append(RoutedInstance(name, planned.zone, rates))
    units = {each.id: each.unit for each in recipe.classes}
    models: dict[str, list[RoutedRoute]] = {}
    for route in routes:
        models.setdefault(serving_id(route.app, route.request_type), []).append(routed_route(route, units, plan.flows))
    table = [anywhere(RoutedModel(app, tuple(own), tuple(members)), plan.flows) for app, own in models.items()]
    return FleetTimeline(tuple(lives), ((0.0, tuple(table)),), length_s)


def station_of(listed: ListedTemplate, routes: Iterable[Route]) -> BatchModel:
    """What an instance of the template costs in time, for calls as large as those of `routes`."""
    points = tuple(point.units_per_s for point in listed.points)
    rates = {name: max(point.get(name, 0.0) for point in points) for point in points for name in point}
    try:
        said = msgspec.convert(listed.placement.payload, Batching)
    except msgspec.ValidationError as error:
        raise ValueError(f"template {listed.template().id} of {listed.software.model}: {error}") from error
    legs = [leg for route in routes for leg in route.legs if leg.work_class in rates]
    largest_s = said.lanes * max((leg.units_per_request / rates[leg.work_class] for leg in legs), default=0.0)
    batch_s = said.batch * largest_s if said.batch else 0.0 if len(rates) == 1 else inf
    nodes = [node_config_from_id(config) for config in listed.nodes]
    return BatchModel(
        points,
        batch_s,
        min(said.start_ms / 1000, batch_s),
        said.lanes,
        sum(listed.nodes.values()),
        min(node.network_gbps for node in nodes) * 1e9 / 8,
    )
