"""Templates of any-to-any models for a fleet: their sources, the routes of requests, and what they do not promise."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from control.planning.recipe import CellRecipe, ExecutorRecipe, GraphRecipe, Recipe
from templates_lib.apps.app_work import AppWork
from templates_lib.apps.graph_app import PublishedApp, app_of
from templates_lib.cost.component import PROCESSORS, EstimatedComponentCost
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.measured_component import MeasuredComponentCost, component_key
from templates_lib.executors.memory_need import ExecutorNeed, executor_need
from templates_lib.graphs.request_type import due_of
from templates_lib.ports.component_cost import ComponentCostModel
from templates_lib.sources.cell_source import CellSource
from templates_lib.sources.graph_source import ExecutorSource
from templates_lib.sources.placement_kinds import gpu_executors
from templates_lib.values.component_profile import ComponentProfile
from templates_lib.values.engines import graph_engines
from templates_lib.values.gpu import GIB, Gpu
from templates_lib.values.hardware import load_gpus
from templates_lib.values.library import Library
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.plan import Plan, PlannedInstance, Reason
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Route

UNCERTIFIED = "uncertified"
"""Kind of the reasons that say what no promise is given of."""
ALONE = "alone"
"""Kind of those that say how long requests take that wait for nothing."""
PROMISED = "certificate"
"""Kind of those that say what is promised, as of text models (`control.explain.certificate`)."""
_FP32_BYTES = 4.0


def executor_source(recipe: ExecutorRecipe) -> ExecutorSource:
    """Raises ValueError for a GPU that nobody knows."""
    return ExecutorSource(*_made_of(recipe))


def cell_source(recipe: CellRecipe) -> CellSource:
    """Raises ValueError for a GPU that nobody knows."""
    return CellSource(*_made_of(recipe))


def app_works(recipe: Recipe) -> dict[str, AppWork]:
    """Return the work of each app of a fleet, by name."""
    executors = (each for each in recipe.sources if isinstance(each, ExecutorRecipe))
    return {work.app.name: work for each in executors for work in executor_source(each).works}


def _made_of(recipe: GraphRecipe) -> tuple[tuple[AppWork, ...], frozenset[str], frozenset[str]]:
    processors = frozenset(name for name, gpu in _gpus(recipe.gpus).items() if gpu.vendor == PROCESSORS)
    works = _works(recipe.apps, recipe.nodes, recipe.gpus, recipe.profiles)
    return works, frozenset(recipe.unpruned), processors


def _gpus(own: tuple[Gpu, ...]) -> dict[str, Gpu]:
    return load_gpus() | {gpu.name: gpu for gpu in own}


def graph_recipes(
    apps: tuple[PublishedApp, ...], nodes: tuple[NodeConfig, ...], gpus: tuple[Gpu, ...], unpruned: tuple[str, ...]
) -> tuple[GraphRecipe, ...]:
    """Recipes of the templates of a fleet's apps; none without apps."""
    own = (apps, nodes, gpus, unpruned)
    return (ExecutorRecipe(*own), CellRecipe(*own)) if apps else ()


@lru_cache(maxsize=8)
def _works(
    apps: tuple[PublishedApp, ...],
    nodes: tuple[NodeConfig, ...],
    gpus: tuple[Gpu, ...],
    profiles: tuple[ComponentProfile, ...],
) -> tuple[AppWork, ...]:
    """Made once for all sources of a fleet, as their times take a while."""
    needs: dict[str, ExecutorNeed] = {}
    for key, need in (each for app in apps for each in _needs(app)):
        # Apps may have one network from files of several sizes: all are planned with the largest.
        needs[key] = max(needs.get(key, need), need, key=lambda each: each.held_bytes(1.0, _FP32_BYTES))
    costs = _costs(gpus, profiles, needs)
    return tuple(AppWork(app_of(each), nodes, costs) for each in apps)


def _costs(
    gpus: tuple[Gpu, ...], profiles: tuple[ComponentProfile, ...], needs: Mapping[str, ExecutorNeed]
) -> ComponentCostModel:
    estimate = EstimatedComponentCost(estimated_cost_model(_gpus(gpus)), needs)
    return MeasuredComponentCost(estimate, profiles) if profiles else estimate


def _needs(published: PublishedApp) -> Iterator[tuple[str, ExecutorNeed]]:
    """Yield what Medley's executors of an app ask for; of one that nothing runs its memory is estimated."""
    for component in app_of(published).graph.components if published.engine in graph_engines() else ():
        need = executor_need(published.config, component, published.file_bytes.get(component.name, 0.0))
        if need is not None:
            yield component_key(component), need


def graph_evidence(recipe: GraphRecipe) -> str:
    names = ", ".join(each.name for each in recipe.apps)
    if not recipe.profiles:
        return f"estimated for {names}, with no measurement of an encoder or generator"
    measured = sorted({each.component.partition("/")[0] for each in recipe.profiles})
    nodes = sorted({each.gpu for each in recipe.profiles})
    return f"estimated for {names}, but measured for {', '.join(measured)} on {', '.join(nodes)}"


def graph_routes(recipe: Recipe) -> tuple[Route, ...]:
    """Return the routes of its apps."""
    executors = (each for each in recipe.sources if isinstance(each, ExecutorRecipe))
    return tuple(route for each in executors for route in executor_source(each).routes)


def promised_classes(recipe: Recipe) -> frozenset[str]:
    """Return the work classes of its apps that requests visit of which a percentile is promised."""
    executors = (each for each in recipe.sources if isinstance(each, ExecutorRecipe))
    return frozenset(name for each in executors for work in executor_source(each).works for name in work.promised)


def graph_unservable(recipe: ExecutorRecipe, library: Library) -> Iterator[str]:
    """A line for each request type that no route serves with templates of `library`."""
    possible = {library.classes[k].id for k in set(library.entry_class.tolist())}
    for work in executor_source(recipe).works:
        routes = work.routes()
        for kind in work.app.types:
            own = [route for route in routes if route.request_type == kind.name]
            if not any(all(leg.work_class in possible for leg in route.legs) for route in own):
                yield _why(recipe, work, kind.name)


def uncertified(plan: Plan, snapshot: Snapshot, recipe: Recipe | None) -> tuple[Reason, ...]:
    """Say what a plan does not promise its apps, and how long requests take that wait for nothing; none without apps.
    `plan`: with placements."""
    sources = recipe.sources if recipe is not None else ()
    own = [each for each in sources if isinstance(each, ExecutorRecipe)]
    unpromised = open_types(app for each in own for app in each.apps)
    found = [Reason(UNCERTIFIED, not_promised(unpromised), unpromised)] if unpromised else []
    for work in (work for each in own for work in executor_source(each).works):
        taken = _alone_s(plan, snapshot, work)
        for kind in (kind for kind in work.app.types if kind.name in taken):
            due, key = due_of(work.app.graph, kind), f"{work.app.name}/{kind.name}"
            due_s, percentile = due.first_s + due.rest_s, kind.objective.percentile if kind.objective else 0.0
            if percentile and work.promised & plan.attainment.keys():
                text = f"{key}: {percentile:g} % of the requests are to be answered whole within {due_s:.3g} s, waiting"
                found.append(Reason(PROMISED, f"{text} included: simulated, by estimated times", key))
            elif percentile:
                found.append(Reason(UNCERTIFIED, f"{key}: its percentile was not simulated, and is not promised", key))
            at_most = f"takes {taken[kind.name]:.3g} s at most at the operating points"
            text = f"{key}: a request that waits for nothing {at_most}, and its answer is due in {due_s:.3g} s"
            found.append(Reason(ALONE, text, key))
    return tuple(found)


def _alone_s(plan: Plan, snapshot: Snapshot, work: AppWork) -> dict[str, float]:
    """Request type → seconds of a request on the slowest way that the plan sends some: the stays of all its stages, as
    if none began before the one before it ends. What rows take between stages is not in it."""
    routes = {route.id: route for route in snapshot.routes if route.app == work.app.name}
    stays = [(i, each) for i in plan.instances if i.model == work.app.name for each in _stays(work, i)]
    found: dict[str, float] = {}
    for route in (routes[flow.route] for flow in plan.flows if flow.route in routes):
        total = 0.0
        for leg in route.legs:
            names = leg.work_class.split("/")[1].split("+")
            keys = [f"{name}/{route.request_type}" for name in names]
            able = (each for i, each in stays if leg.work_class in i.units_per_s and each.keys() >= {*keys})
            total += max((sum(each[key] for key in keys) for each in able), default=math.inf)
        found[route.request_type] = max(found.get(route.request_type, 0.0), total)
    return {kind: seconds for kind, seconds in found.items() if math.isfinite(seconds)}


def _stays(work: AppWork, instance: PlannedInstance) -> Iterator[Mapping[str, float]]:
    """Yield for each executor of an instance the seconds that a request stays, by `COMPONENT/TYPE`."""
    nodes = {node.id: node for node in work.nodes}
    for executor in gpu_executors(instance):
        for replica in (each for name in instance.nodes if name in nodes for each in work.replicas(nodes[name])):
            if (replica.option.components, replica.option.gpus) == (executor.components, executor.gpus):
                yield replica.stay_s


def not_promised(apps: str) -> str:
    """`apps`: their names, joined."""
    return (
        f"{apps}: latency is not certified: objectives bound how many requests each stage serves at once, by estimated "
        "times; requests that wait, and stages one after another, are not simulated"
    )


def open_types(apps: Iterable[PublishedApp]) -> str:
    """Name the request types of which no percentile is promised: an app as a whole where that is all of them."""
    found: list[str] = []
    for app in apps:
        own = [kind.name for kind in app.types if not kind.objective.percentile]
        found += [app.name] if len(own) == len(app.types) else [f"{app.name}/{name}" for name in own]
    return ", ".join(found)


def _why(recipe: ExecutorRecipe, work: AppWork, request_type: str) -> str:
    app = work.app
    kind = next(each for each in app.types if each.name == request_type)
    nodes = sorted(recipe.nodes, key=lambda node: node.gpu_count * _gib(recipe, node.gpu))
    if not nodes:
        return f"{app.name}: there is no node on offer"
    for name in app.graph.order(kind.components):
        if why := work.refusal(name):
            largest = nodes[-1]
            memory = largest.gpu_count * _gib(recipe, largest.gpu)
            return f"{app.name}: {why}: the largest, {largest.id}, has {memory:.3g} GiB; offer larger nodes"
    return (
        f"{app.name}: no node on offer serves {request_type!r} within its objective, even one request at a time; relax "
        "slo or offer faster nodes"
    )


def _gib(recipe: ExecutorRecipe, gpu: str) -> float:
    return _gpus(recipe.gpus)[gpu].memory_bytes / GIB
