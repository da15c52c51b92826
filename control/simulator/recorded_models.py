"""Models that requests of a simulation are for: those of a fleet, or of a recorded snapshot."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from control.planning.recording import Recording
from control.simulator.result import SimulatedModel
from control.simulator.serving.plan_timeline import RecipeStations
from templates_lib.apps.app import serving_id
from templates_lib.apps.app_work import AppWork
from templates_lib.apps.served_model import ServedModel
from templates_lib.graphs.request_type import due_of
from templates_lib.values.slo import Slo
from templates_lib.values.work import Leg, Phase, Route, Unit

_TEXT = {Phase.PREFILL: (0.0, 1.0, 0.0), Phase.DECODE: (0.0, 0.0, 1.0), Phase.AGGREGATED: (1.0, 0.0, 0.0)}
"""Units of a phase that a request, a prompt token and an output token bring."""


def text_model(served: ServedModel) -> SimulatedModel:
    units = {served.class_id(phase): _TEXT[phase] for phase in served.phases}
    return SimulatedModel(served.name, served.slo, units, served.shape)


def recorded_models(recording: Recording) -> tuple[SimulatedModel, ...]:
    """Make one for each request type of the snapshot's demand. Raises ValueError for a snapshot without a recipe, a
    request type without a route, and a route with a leg that nothing of the recipe serves."""
    if recording.recipe is None:
        raise ValueError(f"snapshot {recording.name} has no recipe for its templates: name their file with `templates`")
    stations, found = RecipeStations(recording.recipe, recording.snapshot.routes), []
    for demand in recording.snapshot.demand:
        of_it = demand.app, demand.request_type
        routes = [route for route in recording.snapshot.routes if (route.app, route.request_type) == of_it]
        if not routes:
            raise ValueError(f"demand {demand.key} has no route: add one to the snapshot's `routes`")
        if demand.app in stations.works:
            found.append(_app_model(stations.works[demand.app], demand.request_type, routes))
            continue
        legs = [leg for route in routes for leg in route.legs]
        shapes = [stations.text[leg.work_class].shape for leg in legs if leg.work_class in stations.text]
        slo = max((_objective(route, stations) for route in routes), key=lambda slo: slo.ttft_ms)
        units = {leg.work_class: _units(leg, stations) for leg in legs}
        found.append(SimulatedModel(serving_id(*of_it), slo, units, shapes[0] if shapes else None))
    return tuple(found)


def _app_model(work: AppWork, request_type: str, routes: Sequence[Route]) -> SimulatedModel:
    """Return a request type of an any-to-any model: its objectives add up to when the whole answer is due."""
    kind = next(kind for kind in work.app.types if kind.name == request_type)
    due = due_of(work.app.graph, kind)
    slo = Slo(1000 * (due.first_s + due.rest_s), inf)
    if kind.objective is not None and kind.objective.percentile:
        slo = replace(slo, percentile=kind.objective.percentile)
    units = {leg.work_class: (leg.units_per_request, 0.0, 0.0) for route in routes for leg in route.legs}
    return SimulatedModel(serving_id(work.app.name, request_type), slo, units, None)


def _units(leg: Leg, stations: RecipeStations) -> tuple[float, float, float]:
    if leg.work_class in stations.text:
        return _TEXT[Phase(stations.classes[leg.work_class].phase)]
    return leg.units_per_request, 0.0, 0.0


def _objective(route: Route, stations: RecipeStations) -> Slo:
    """Return the objective of a text model with the shares of the legs beside it, all of which come before its first
    token, or that of the whole answer. A class of output tokens has its share of each; without any there is none."""
    slo, rest_ms = Slo(0.0, inf), 0.0
    for leg in route.legs:
        work_class = stations.classes[leg.work_class]
        if leg.work_class in stations.text:
            slo = stations.text[leg.work_class].slo
        else:
            rest_ms += work_class.slo_share_ms * (leg.units_per_request if work_class.unit is Unit.OUTPUT_TOKEN else 1)
    return replace(slo, ttft_ms=slo.ttft_ms + rest_ms or inf)
