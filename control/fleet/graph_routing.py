"""An app of a graph as gateways serve it: a model of the table for each request type, and the task that uses them."""

from collections.abc import Mapping

from agents.messages.bounds import MAX_TEXT_TO_MAKE
from control.fleet.routing import GatewayModel
from control.gateway.published import Hold, MediaTerms
from control.gateway.published_app import ServedApp, TaskCode
from templates_lib.apps.app import serving_id
from templates_lib.apps.app_work import AppWork
from templates_lib.apps.graph_app import GraphApp
from templates_lib.apps.task_choices import task_choices
from templates_lib.graphs.component import Component, ComponentKind, DecoderSpec, Modality
from templates_lib.graphs.request_type import GraphRequestType
from templates_lib.values.slo import Slo


def graph_models(
    work: AppWork,
    terms: MediaTerms,
    dispatch: str,
    tokenizer: str = "",
    created: int = 0,
    fleet: str = "",
    hold: Hold | None = None,
) -> dict[str, GatewayModel]:
    """Return what serves each request type that is answered with text, or by a generator alone, by the name that the
    table has for it; others gateways do not serve. `terms`: the config that the app's model is published with.
    `dispatch`: a key of `ROUTING_POLICIES`."""
    routes, classes = work.routes(), {each.id: each for each in work.classes}
    found: dict[str, GatewayModel] = {}
    for kind in work.app.types:
        answering = _answering(work.app, kind)
        if answering is None:
            continue
        own = tuple(route for route in routes if route.request_type == kind.name)
        legs = dict.fromkeys(leg.work_class for route in own for leg in route.legs)
        asked, spec = kind.work[answering.name], answering.spec
        writes = isinstance(spec, DecoderSpec)
        found[serving_id(work.app.name, kind.name)] = GatewayModel(
            own,
            tuple(classes[name] for name in legs),
            spec.model.max_context_tokens if isinstance(spec, DecoderSpec) else MAX_TEXT_TO_MAKE,
            asked.context_tokens if writes else 0.0,
            asked.units if writes else 0.0,
            tokenizer=tokenizer,
            created=created,
            fleet=fleet,
            hold=hold,
            objective=_objective(kind) if writes else None,
            policy=dispatch,
            media=terms,
        )
    return found


def _objective(kind: GraphRequestType) -> Slo | None:
    """What gateways count answers of text by, and give turns by under `late-pull-v1`."""
    asked = kind.objective
    return None if asked is None else Slo(asked.ttft_ms, asked.tpot_ms, percentile=asked.percentile)


def served_app(work: AppWork, task: TaskCode) -> ServedApp:
    """Return how gateways run its task, on the routes of `graph_models`."""
    app = work.app
    roles: Mapping[str, tuple[str, ...]] = {
        work.class_id(role): role.components for route in work.play.routes for role in route.roles
    }
    return ServedApp(app.name, task, served_types(app), roles, task_choices(app, work.play.routes))


def served_types(app: GraphApp) -> dict[str, str]:
    """Request type → the model of the table that serves it, of those that gateways serve."""
    return {kind.name: serving_id(app.name, kind.name) for kind in app.types if _answering(app, kind) is not None}


def _answering(app: GraphApp, kind: GraphRequestType) -> Component | None:
    """The component whose text, or what a lone generator makes, answers requests of a type; None: they are answered
    in a way that gateways do not serve."""
    own = [each for each in app.graph.components if each.name in kind.components]
    if kind.name.endswith(f"-to-{Modality.TEXT}"):
        return next((each for each in own if each.answers is Modality.TEXT), None)
    return own[0] if len(own) == 1 and own[0].kind is ComponentKind.GENERATOR else None
