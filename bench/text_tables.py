"""Routing tables of a text model, as tests write them: who does which leg, in tokens per second."""

from collections.abc import Iterable

from control.simulator.serving.fleet_timeline import InstanceLife
from policies.routing_table import RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute, ZoneFlow
from templates_lib.values.work import Edge, Unit

WHOLE, PREFILL, DECODE = "whole", "prefill", "decode"
PHASES = {WHOLE: "aggregated", PREFILL: "prefill", DECODE: "decode"}


def member(model: str, id_: str, zone: str, leg: str, units_per_s: float = 100.0) -> RoutedInstance:
    return RoutedInstance(id_, zone, {f"{model}/{PHASES[leg]}": units_per_s})


def text_model(
    model: str, members: Iterable[RoutedInstance] = (), flows: Iterable[ZoneFlow] = (), per_request: float = 1.0
) -> RoutedModel:
    """Both of a text model's routes. `per_request`: tokens of a mean prompt, and of a mean answer."""
    flows = tuple(flows)
    split = (
        RoutedLeg(f"{model}/prefill", Unit.PROMPT_TOKEN, per_request),
        RoutedLeg(f"{model}/decode", Unit.OUTPUT_TOKEN, per_request),
    )
    both = (RoutedLeg(f"{model}/aggregated", Unit.INVOCATION, 1.0),)
    one, two = (tuple(flow for flow in flows if len(flow.zones) == n) for n in (1, 2))
    routes = (
        RoutedRoute(f"{model}/disaggregated", split, (Edge(0, 1, 0.0),), two),
        RoutedRoute(f"{model}/aggregated", both, (), one),
    )
    return RoutedModel(model, routes, tuple(members))


def life_member(life: InstanceLife, units_per_s: float = 100.0) -> RoutedInstance:
    return member(life.app, life.id, life.zone, life.leg, units_per_s)
