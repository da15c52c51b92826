"""Flows of plans that name no zones, as in mode `paper`, where any instance of a leg feeds any of the next."""

from dataclasses import replace
from itertools import product
from math import prod

from policies.routing_table import RoutedModel, RoutedRoute, ZoneFlow
from templates_lib.values.plan import Flow


def anywhere(model: RoutedModel, flows: tuple[Flow, ...]) -> RoutedModel:
    """The model with flows that name no zones spread over the zones of each leg, by what runs there."""
    return replace(model, routes=tuple(_spread(model, route, flows) for route in model.routes))


def _spread(model: RoutedModel, route: RoutedRoute, flows: tuple[Flow, ...]) -> RoutedRoute:
    found = list(route.flows)
    shares = [_shares(model, leg.work_class) for leg in route.legs]
    for flow in flows:
        if flow.route == route.id and not any(flow.zones) and flow.requests_per_s > 0:
            for zones in product(*shares):
                share = prod(of[zone] for of, zone in zip(shares, zones, strict=True))
                found.append(ZoneFlow(zones, flow.requests_per_s * share))
    return replace(route, flows=tuple(found))


def _shares(model: RoutedModel, work_class: str) -> dict[str, float]:
    """Zone → its share of the class's capacity."""
    rates: dict[str, float] = {}
    for member in model.members:
        if work_class in member.units_per_s:
            rates[member.zone] = rates.get(member.zone, 0.0) + member.units_per_s[work_class]
    total = sum(rates.values())
    return {zone: rate / total for zone, rate in sorted(rates.items())}
