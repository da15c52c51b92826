"""State of a fleet against its plan and its promises."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from control.fleet.instance_view import InstanceView
from control.fleet.latency import GatewayFigures, figures_together
from control.fleet_file.model_section import SloSection
from templates_lib.apps.app import serving_id
from templates_lib.values.plan import Plan
from templates_lib.values.work import Unit, WorkClass

PERCENTILES = (50.0, 90.0, 99.0)


@dataclass(frozen=True, slots=True)
class LegStatus:
    """Instances that serve one work class, against the plan."""

    leg: str
    """Work class without its model: a `Phase` of a text model."""
    planned: int
    ready: int
    running: int
    waiting: int
    units_per_s: float
    """Capacity that the ready instances were planned to have together."""
    planned_units_per_s: float
    """The same of all that the plan has."""
    demand_units_per_s: float
    """Demand that the plan was made for; what it leaves unmet counts, too."""
    work_class: str = ""
    unit: str = ""
    """Unit in which work of the class is counted."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    model: str
    legs: tuple[LegStatus, ...]
    ttft_ms: dict[str, float | None]
    """Time by percentile, since the gateway started; None: there was no request, or the gateway is not asked."""
    tpot_ms: dict[str, float | None]
    ttft_slo_ms: float | None
    tpot_slo_ms: float | None
    requests: int
    resumptions: int
    """Attempts that were lost and went on elsewhere."""
    late_refusals: int
    """Requests that were refused as no instance could begin them in time (`slo.late: refuse`)."""


@dataclass(frozen=True, slots=True)
class FleetStatus:
    fleet: str
    plan: str
    usd_per_hour: float
    unmet: dict[str, float]
    models: tuple[ModelStatus, ...]


def fleet_status(
    fleet: str,
    plan: Plan,
    classes: Sequence[WorkClass],
    views: Sequence[InstanceView],
    figures: Mapping[str, GatewayFigures],
    demand: Mapping[str, float],
    slos: Mapping[str, SloSection] | None = None,
) -> FleetStatus:
    """Compare a fleet with its plan. `views`: of its instances. `figures`: by model, empty where no gateway could be
    asked. `demand`: units per second by work class that the plan was made for. `slos`: of the fleet's spec, by model;
    of models without one the objectives are those of its work classes, and whole instances have none for a prompt."""
    slos = slos or {}
    models = sorted({i.model for i in plan.instances} | {view.model for view in views})
    return FleetStatus(
        fleet,
        plan.id,
        plan.usd_per_hour,
        plan.unmet,
        tuple(
            _model_status(
                model, plan, classes, views, _figures_of(model, plan, figures), demand, (slos or {}).get(model)
            )
            for model in models
        ),
    )


def _figures_of(model: str, plan: Plan, figures: Mapping[str, GatewayFigures]) -> GatewayFigures | None:
    """Figures of a model, or of all request types of an app: gateways have one model for each."""
    routes = (flow.route.split("/") for flow in plan.flows if flow.route.startswith(f"{model}/"))
    names = {model, *(serving_id(model, route[1]) for route in routes)}
    return figures_together(figures[name] for name in sorted(names & figures.keys()))


def _model_status(
    model: str,
    plan: Plan,
    classes: Sequence[WorkClass],
    views: Sequence[InstanceView],
    figures: GatewayFigures | None,
    demand: Mapping[str, float],
    slo: SloSection | None,
) -> ModelStatus:
    own = {c.id: c for c in classes if c.component == model}
    by_unit = {c.unit: c.slo_share_ms for c in own.values() if c.slo_share_ms > 0}  # apps' are of their types
    planned = {name for i in plan.instances if i.model == model for name in i.units_per_s}
    legs = tuple(
        _leg_status(model, name, own[name].unit if name in own else "", plan, views, demand)
        for name in sorted(planned, reverse=True)  # the prompt's class first
    )

    def of(which: str) -> dict[str, float | None]:
        found = {f"p{p:g}": None if figures is None else getattr(figures, which).percentile(p) for p in PERCENTILES}
        return {name: None if value is None else value * 1000 for name, value in found.items()}

    return ModelStatus(
        model,
        legs,
        of("ttft_s"),
        of("tpot_s"),
        by_unit.get(Unit.PROMPT_TOKEN) if slo is None else slo.ttft_ms,
        by_unit.get(Unit.OUTPUT_TOKEN, by_unit.get(Unit.INVOCATION)) if slo is None else slo.tpot_ms,
        0 if figures is None else int(figures.ttft_s.total),
        0 if figures is None else int(figures.resumptions),
        0 if figures is None else int(figures.late_refusals),
    )


def _leg_status(
    model: str, name: str, unit: str, plan: Plan, views: Sequence[InstanceView], demand: Mapping[str, float]
) -> LegStatus:
    planned = [i for i in plan.instances if i.model == model and name in i.units_per_s]
    ids = {i.template_id for i in planned}
    own = [v for v in views if v.model == model and v.template in ids]
    ready = [v for v in own if v.state == "ready"]
    return LegStatus(
        name.partition("/")[2],
        sum(i.count for i in planned),
        len(ready),
        sum(v.running for v in own),
        sum(v.waiting for v in own),
        sum(v.work.get(name, 0.0) for v in ready),
        sum(i.count * i.units_per_s[name] for i in planned),
        demand.get(name, 0.0),
        name,
        unit,
    )
