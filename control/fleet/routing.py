"""Routing to a fleet's models, as it follows from what is ready."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agents.channels.address import Address
from agents.messages.bounds import MAX_TOP_LOGPROBS
from control.diff.target import Column, Target
from control.gateway.published import Hold, MediaTerms, PublishedModel
from control.gateway.published_app import ServedApp
from control.hub.gang import Gang, GangExecutor, read_gang
from policies.routing import BY_SLACK
from policies.routing_table import PromptTimes, RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute, ZoneFlow
from templates_lib.apps.served_model import ServedModel
from templates_lib.cells.division import divided
from templates_lib.values.plan import Flow, Plan
from templates_lib.values.slo import Slo
from templates_lib.values.template import ServingTemplate
from templates_lib.values.work import Route, Unit, WorkClass

Rates = Mapping[str, Mapping[str, float]]
"""Executor → work class → units per second, when it does nothing else."""


@dataclass(frozen=True, slots=True)
class GatewayModel:
    """A model, or one request type of an app, as gateways need it beside its instances."""

    routes: tuple[Route, ...]
    work_classes: tuple[WorkClass, ...]
    """Those of its routes."""
    context_tokens: int
    """Prompt and output together that the model can hold."""
    mean_prompt_tokens: float
    mean_output_tokens: float
    max_prompt_tokens: int = 0
    """Longer prompts are for `longer`; 0: no limit."""
    tokenizer: str = ""
    """Path of a GGUF file, or of a directory with tokenizer.json."""
    created: int = 0
    """Unix seconds."""
    fleet: str = ""
    """Whose demand its requests are."""
    hold: Hold | None = None
    """What becomes of requests while nothing serves it; None: they are refused."""
    longer: str = ""
    """Another model of the table, which serves longer prompts than this one's objective speaks of."""
    objective: Slo | None = None
    policy: str = "wrr-v1"
    """A key of `ROUTING_POLICIES`."""
    media: MediaTerms | None = None
    """What it takes beside text; None: nothing."""


def gateway_model(
    served: ServedModel,
    tokenizer: str = "",
    created: int = 0,
    fleet: str = "",
    hold: Hold | None = None,
    longer: str = "",
) -> GatewayModel:
    """The same of a text model that is planned for. Where nothing but routes is asked for, the rest may be left out."""
    return GatewayModel(
        served.routes(),
        served.work_classes(),
        served.model.max_context_tokens,
        served.shape.mean_prompt_tokens,
        served.shape.mean_output_tokens,
        served.slo.max_prompt_tokens,
        tokenizer,
        created,
        fleet,
        hold,
        longer,
        served.slo,
        # What is promised is certified under the dispatch that keeps it.
        BY_SLACK if served.slo.queueing else "wrr-v1",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """Part of a fleet's routing that does not change while a plan is kept."""

    plan: Plan
    models: Mapping[str, GatewayModel]
    """By the name that clients use."""
    times: Callable[[str, ServingTemplate], PromptTimes | None] = lambda _, __: None
    """(work class, template) → how long prompts take; None: not known."""
    rates: Callable[[ServingTemplate], Rates] = lambda _: {}
    """What each executor of a template sustains, where several may do the same work and not equally fast."""
    apps: tuple[ServedApp, ...] = ()
    """Apps whose request types some of the models serve."""
    unserved: Mapping[str, str] = field(default_factory=dict)
    """App that is left out → why."""

    def served(self, ready: Iterable[tuple[str, Target, Mapping[str, Address]]]) -> tuple[PublishedModel, ...]:
        """Return the models as gateways serve them; one without instances is there and refused. `ready`: instance, what
        it is, where the schedulers of its executors are."""
        there = [(instance, wanted) for instance, wanted, _ in ready]
        served = []
        for routed in self.routed(there):
            model = self.models[routed.id]
            prompting = {each.id for each in model.work_classes if each.unit is Unit.PROMPT_TOKEN}
            served.append(
                PublishedModel(
                    routed,
                    model.tokenizer,
                    # Only who serves the last leg of a route keeps an answer.
                    self._room(routed.id, there, {route.legs[-1].work_class for route in model.routes}),
                    model.created,
                    max_top_logprobs=MAX_TOP_LOGPROBS,  # every engine has them
                    mean_prompt_tokens=model.mean_prompt_tokens,
                    mean_output_tokens=model.mean_output_tokens,
                    fleet=model.fleet,
                    hold=model.hold,
                    max_prompt_tokens=model.max_prompt_tokens,
                    longer=model.longer,
                    prompt_room_tokens=self._room(routed.id, there, prompting),
                    media=model.media,
                )
            )
        return tuple(served)

    def routed(self, ready: Iterable[tuple[str, Target]]) -> tuple[RoutedModel, ...]:
        """Return the fleet as routers see it: every model, with those of `ready` that serve it and the flows that they
        allow."""
        classes = {each.id: each for model in self.models.values() for each in model.work_classes}
        there, gangs = list(ready), dict[str, Gang]()
        work: dict[tuple[str, Column], Mapping[str, Mapping[str, float]]] = {}
        for _, wanted in there:  # many instances are alike, and reading a placement and dividing its work take time
            if wanted.template.id not in gangs:
                gangs[wanted.template.id] = read_gang(wanted.template)
            if (key := (wanted.plan_id, wanted.column)) not in work:
                rates = self.rates(wanted.template)
                work[key] = work_of(wanted.units_per_s, gangs[wanted.template.id], classes, rates)
        members_there = [
            (member, wanted)
            for name, wanted in there
            for member in members_of(name, wanted, gangs[wanted.template.id], work[wanted.plan_id, wanted.column])
        ]
        models = []
        for name, model in self.models.items():
            units = {each.id: each.unit for each in model.work_classes}
            is_slack = model.policy == BY_SLACK
            members = tuple(
                self._timed(member, wanted) if is_slack else member
                for member, wanted in members_there
                if not units.keys().isdisjoint(member.units_per_s)
            )
            places = {(member.zone, work_class) for member in members for work_class in member.units_per_s}
            routes = (routed_route(route, units, self.plan.flows) for route in model.routes)
            own = tuple(_within(route, places) for route in routes)
            models.append(RoutedModel(name, own, members, model.policy, model.objective))
        return tuple(models)

    def _timed(self, member: RoutedInstance, wanted: Target) -> RoutedInstance:
        """The member with what late binding reckons with."""
        found = (self.times(work_class, wanted.template) for work_class in member.units_per_s)
        times = next((each for each in found if each is not None), None)
        return replace(member, times=times, usd_per_hour=wanted.usd_per_hour)

    def _room(self, name: str, there: Iterable[tuple[str, Target]], work_classes: Collection[str]) -> int:
        """The model's context, or what every instance with these work classes has KV cache for: whichever of them takes
        a request can finish its part, and take it over from another."""
        templates = {w.template.id: w.template for _, w in there if not w.units_per_s.keys().isdisjoint(work_classes)}
        gangs = [read_gang(template) for template in templates.values()]
        own = (e for gang in gangs for e in gang.executors if gang.is_of_one or e.component == name)
        rooms = (executor.most_tokens for executor in own if executor.graph is None)
        return min((self.models[name].context_tokens, *rooms))


def members_of(
    instance: str, wanted: Target, gang: Gang, work: Mapping[str, Mapping[str, float]]
) -> Iterator[RoutedInstance]:
    """Yield one for each executor that has work, by executor in `work` (`work_of`)."""
    for executor in gang.executors:
        if own := work.get(executor.id):
            yield RoutedInstance(gang.member(instance, executor.id), wanted.zone, own)


def work_of(
    units_per_s: Mapping[str, float], gang: Gang, classes: Mapping[str, WorkClass], rates: Rates
) -> dict[str, dict[str, float]]:
    """Divide what is planned of an instance between its executors: executor → work class → units/s.

    An executor does what is of its component, and of a graph what its components are all that is asked for. Executors
    that are alike, or of which nobody knows what they sustain, share evenly."""
    planned = {of: units for of, units in units_per_s.items() if units > 0}
    if gang.is_of_one:
        return {gang.executors[0].id: planned}
    able = {of: [e for e in gang.executors if _does(e, classes.get(of))] for of in planned}
    known = {e.id: rates[e.id] for each in able.values() for e in each if e.id in rates}
    found: dict[str, dict[str, float]] = {executor.id: {} for executor in gang.executors}
    even = {of for of, each in able.items() if not all(known.get(e.id, {}).get(of, 0.0) > 0 for e in each)}
    for of in even:
        for executor in able[of]:
            found[executor.id][of] = planned[of] / len(able[of])
    for alike, own in _by_rates({of: units for of, units in planned.items() if of not in even}, known):
        for name in alike:
            found[name] |= {of: units / len(alike) for of, units in own.items()}
    return found


def _by_rates(planned: Mapping[str, float], rates: Rates) -> Iterator[tuple[list[str], dict[str, float]]]:
    """Yield executors that are alike, and what they do together with as little of their time as goes."""
    groups: dict[tuple[tuple[str, float], ...], list[str]] = {}
    for name, own in rates.items():
        groups.setdefault(tuple(sorted(own.items())), []).append(name)
    together = [{of: len(names) * rate for of, rate in own} for own, names in groups.items()]
    yield from zip(groups.values(), divided(planned, together), strict=True)


def _does(executor: GangExecutor, of: WorkClass | None) -> bool:
    if of is None or of.component != executor.component:
        return False
    return executor.graph is None or executor.graph.does(of.phase)


def routed_route(route: Route, units: Mapping[str, Unit], flows: Iterable[Flow]) -> RoutedRoute:
    """A route as routers see it, with those of a plan's flows that are its own and name zones. `units`: by work
    class."""
    return RoutedRoute(
        route.id,
        tuple(RoutedLeg(leg.work_class, units[leg.work_class], leg.units_per_request) for leg in route.legs),
        route.edges,
        tuple(
            ZoneFlow(flow.zones, flow.requests_per_s)
            for flow in flows
            if flow.route == route.id and all(flow.zones) and flow.requests_per_s > 0
        ),
    )


def _within(route: RoutedRoute, places: set[tuple[str, str]]) -> RoutedRoute:
    """The route without flows over places, (zone, work class), where nothing is."""
    classes = [leg.work_class for leg in route.legs]
    there = (flow for flow in route.flows if places.issuperset(zip(flow.zones, classes, strict=True)))
    return replace(route, flows=tuple(there))
