"""A plan as a timeline: everything it wants is there from the start and stays."""

from collections.abc import Iterable, Iterator, Mapping

from agents.messages.to_scheduler import LEGS, Leg
from control.diff.target import Target, targets
from control.fleet.routing import members_of, routed_route, work_of
from control.hub.gang import placed_gang
from control.planning.graph_sources import executor_source
from control.planning.recipe import ExecutorRecipe, ListedRecipe, PipelineRecipe, Recipe
from control.simulator.serving.batch_model import BatchModel, station_of
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.graph_stations import executor_lives, routed_app
from control.simulator.serving.zoneless_flows import anywhere
from control.timing.pipeline_model import PipelineModel
from control.timing.prompt_times import prompt_times
from control.timing.text_pipelines import TextPipelines
from policies.routing_table import RoutedInstance, RoutedModel, RoutedRoute
from templates_lib.apps.app import serving_id
from templates_lib.apps.app_work import AppWork
from templates_lib.apps.served_model import ServedModel
from templates_lib.sources.listed_source import ListedTemplate
from templates_lib.sources.placement_kinds import executors_of, unit_of
from templates_lib.values.plan import Plan
from templates_lib.values.work import Phase, Route, WorkClass


class RecipeStations:
    """Stations that serve the work of a recipe's templates: pipelines of text, in step times that are measured where
    there is a profile and else estimated, stations of batches, with the capacity that is listed, and executors of
    any-to-any models, in estimated times."""

    def __init__(self, recipe: Recipe, routes: Iterable[Route]) -> None:
        """`routes`: those that requests may take. Raises ValueError for one that no source of the recipe serves."""
        self._routes = tuple(routes)
        self.classes: dict[str, WorkClass] = {}
        self.text: dict[str, ServedModel] = {}
        """By work class."""
        self.works: dict[str, AppWork] = {}
        """By any-to-any model."""
        self._pipelines: dict[str, TextPipelines] = {}
        """By text model."""
        self._listed: dict[str, ListedTemplate] = {}
        self._stations: dict[tuple[str, tuple[tuple[str, float], ...]], BatchModel] = {}
        for source in recipe.sources:
            if isinstance(source, ListedRecipe):
                self.classes |= {each.id: each for each in source.classes}
                self._listed = {each.template().id: each for each in source.templates}
            elif isinstance(source, PipelineRecipe):
                pipelines = TextPipelines(source)
                for served in source.served:
                    self.classes |= {each.id: each for each in served.work_classes()}
                    self.text |= {each.id: served for each in served.work_classes()}
                    self._pipelines[served.name] = pipelines
            elif isinstance(source, ExecutorRecipe):
                for work in executor_source(source).works:
                    self.classes |= {each.id: each for each in work.classes}
                    self.works[work.app.name] = work

        for route in self._routes:
            if lacking := sorted({leg.work_class for leg in route.legs} - self.classes.keys()):
                text = f"needs {', '.join(lacking)}, which no template of the recipe serves"
                raise ValueError(f"route {route.id} {text}: list one, or take the route out")

    def lives(self, name: str, wanted: Target) -> Iterator[InstanceLife]:
        """Yield a life for each executor that the plan has work for, as routing tables name it, of one instance that is
        there for ever. Raises ValueError for what cannot be simulated."""
        if unknown := sorted(wanted.units_per_s.keys() - self.classes.keys()):
            raise self._refusal(wanted, f"no source of the recipe serves {', '.join(unknown)}")
        if wanted.model in self.works:
            yield from executor_lives(name, wanted, self.works[wanted.model])
            return
        executors = executors_of(wanted.template)
        if executors is None and wanted.template.id in self._listed:  # of another system: its capacity is all we know
            units = {of: rate for of, rate in wanted.units_per_s.items() if rate > 0}
            members = [RoutedInstance(name, wanted.zone, units)] if units else []
        elif executors is None:
            raise self._refusal(wanted, f"nothing reads its placement of kind {wanted.template.placement.kind!r}")
        else:
            gang = placed_gang(wanted.template)
            members = list(members_of(name, wanted, gang, work_of(wanted.units_per_s, gang, self.classes, {})))
        for member in members:
            classes = [self.classes[of] for of in member.units_per_s]
            served = self.text.get(classes[0].id) if executors and len(classes) == 1 else None
            executor = member.id.removeprefix(name).removeprefix("/")
            if served is not None:
                app, leg = served.name, LEGS[Phase(classes[0].phase)].value
                station: PipelineModel | BatchModel = self._pipelines[app].pipeline(app, wanted.template, executor)
            elif wanted.template.id in self._listed:
                app, leg = _joined(each.component for each in classes), _joined(each.phase for each in classes)
                station = self._station(wanted.template.id, member.units_per_s if executor else {})
            else:
                raise self._refusal(wanted, f"one executor does {', '.join(member.units_per_s)}")
            like = [each.component for each in executors or ()].count(classes[0].component)
            share = unit_of(wanted.template).component_shares[classes[0].component] / like if executor else 1
            usd, rates = float(share) * wanted.usd_per_hour, member.units_per_s
            yield InstanceLife(member.id, app, leg, member.zone, station, usd_per_hour=usd, units_per_s=rates)

    def routed(self, lives: Iterable[InstanceLife], plan: Plan, dispatch: str) -> tuple[RoutedModel, ...]:
        """Return the routing table of a plan whose instances are all there: a model for each request type. `dispatch`:
        of all but any-to-any models, which have their own."""
        units, models = {each.id: each.unit for each in self.classes.values()}, dict[str, list[RoutedRoute]]()
        lives = tuple(lives)
        for route in (route for route in self._routes if route.app not in self.works):
            of_type = models.setdefault(serving_id(route.app, route.request_type), [])
            of_type.append(routed_route(route, units, plan.flows))
        objectives = {served.name: served.slo for served in self.text.values()}
        members, found = [_member(life) for life in lives], []
        for app, routes in models.items():
            classes = {leg.work_class for route in routes for leg in route.legs}
            own = tuple(member for member in members if not classes.isdisjoint(member.units_per_s))
            model = RoutedModel(app, tuple(routes), own, dispatch, objectives.get(app))
            found.append(anywhere(model, plan.flows))
        for work in self.works.values():
            found += routed_app(work, lives, plan, self._routes)
        return tuple(found)

    @property
    def mean_output_tokens(self) -> dict[str, float]:
        """App → mean output tokens of its requests, of those that text models serve."""
        return {served.name: served.shape.mean_output_tokens for served in self.text.values()}

    def _station(self, template: str, share: Mapping[str, float]) -> BatchModel:
        """Make it once for all instances that are alike. `share`: as of `station_of`."""
        key = template, tuple(share.items())
        if key not in self._stations:
            self._stations[key] = station_of(self._listed[template], self._routes, share)
        return self._stations[key]

    def _refusal(self, wanted: Target, why: str) -> ValueError:
        return ValueError(
            f"template {wanted.template.id} of {wanted.model}, which plan {wanted.plan_id} wants in {wanted.zone}, is "
            f"not simulated: {why}. Simulate the plan with the snapshot and the templates that it was made from"
        )


def _member(life: InstanceLife) -> RoutedInstance:
    times = None
    if isinstance(life.station, PipelineModel) and life.leg != Leg.DECODE:
        times = prompt_times(life.station, is_whole=life.leg != Leg.PREFILL)
    return RoutedInstance(life.id, life.zone, life.units_per_s, times, life.usd_per_hour)


def _joined(names: Iterable[str]) -> str:
    return "+".join(dict.fromkeys(names))


def planned_instances(plan: Plan) -> Iterator[tuple[str, Target]]:
    """Yield what each instance of a plan is, with a name for it."""
    for number, each in enumerate(targets(plan)):
        for copy in range(each.count):
            yield f"{'+'.join(each.classes)}/{each.zone}/{number}.{copy}", each


def timeline_of_plan(
    plan: Plan, recipe: Recipe, routes: Iterable[Route], length_s: float, dispatch: str = "wrr-v1"
) -> FleetTimeline:
    """`plan`: with placements (`PlannedInstance.with_template`). `routes`: of its snapshot. `dispatch`: a key of
    `ROUTING_POLICIES`. Raises ValueError for what cannot be simulated, and where the recipe does not know its templates
    or node configurations."""
    stations = RecipeStations(recipe, routes)
    lives = [life for name, wanted in planned_instances(plan) for life in stations.lives(name, wanted)]
    table = stations.routed(lives, plan, dispatch)
    return FleetTimeline(tuple(lives), ((0.0, table),), length_s, stations.mean_output_tokens)
