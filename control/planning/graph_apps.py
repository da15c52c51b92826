"""Any-to-any models of a spec file, with the demand for them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from control.fleet_file.app_section import AppSection, LengthsSection, RequestTypeSection
from control.fleet_file.document import Document
from control.fleet_file.located import located
from control.fleet_file.problem import SpecError, SpecProblem
from control.fleet_file.schema import FleetFile
from control.planning.app_demand import Metered, Stated
from control.planning.app_run import AppRun, run_of
from control.planning.graph_file import graph_beside
from control.planning.served import demand_of
from control.planning.task_file import planned_task, task_of
from control.planning.trace_files import shape_of
from control.tasks.recorded_task import recorded_task
from templates_lib.apps.app_work import roles_on
from templates_lib.apps.engine_parts import parts_refusal
from templates_lib.apps.graph_app import GraphApp, PublishedApp, PublishedType, app_of, published_graph, typed
from templates_lib.apps.shape_lengths import lengths_of
from templates_lib.executors.memory_need import KEPT_AS_STORED
from templates_lib.graphs.component import ComponentKind
from templates_lib.graphs.media_tokens import image_layout
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.request_type import Lengths
from templates_lib.models.hub_weights import is_on_hub
from templates_lib.models.onnx_weights import onnx_bytes
from templates_lib.values.engines import DEFAULT_GRAPH_ENGINE
from templates_lib.values.nearest_name import nearest_name


@dataclass(frozen=True, slots=True, eq=False)
class GraphApps:
    apps: tuple[PublishedApp, ...]
    demand: dict[str, Stated | Metered]
    """By app."""
    runs: dict[str, AppRun]
    """How those are run that have weights, by app."""
    notes: tuple[str, ...]
    """What was left out of their traces."""


def graph_apps_of(file: FleetFile, document: Document) -> GraphApps:
    """Read the apps of a spec. Raises SpecError with every problem at the line that it is about."""
    folder, problems, notes = Path(document.file).parent, list[SpecProblem](), list[str]()
    apps: list[PublishedApp] = []
    demand: dict[str, Stated | Metered] = {}
    runs: dict[str, AppRun] = {}
    for place, section in enumerate(file.apps):
        at = partial(document.position, "apps", place)
        try:
            lengths = [
                located(at("request_types", number, "workload"), _lengths, each, folder, notes)
                for number, each in enumerate(section.request_types)
            ]
            named = "graph" if section.task is None else "task"
            published = located(at(named), _published, section, folder, lengths)
            graph = located(at(named), published_graph, published)
            run = located(at(named), run_of, section, graph, folder, file.policy.pools.dispatch)
            if run is not None:
                published = located(at(named), _run_by, published, run, section.engine or DEFAULT_GRAPH_ENGINE)
                graph = published_graph(published)
            sized = (
                located(at("request_types", number, "lengths", "image_size"), _sized, graph, kind, each.lengths)
                for number, (each, kind) in enumerate(zip(section.request_types, published.types, strict=True))
            )
            published = replace(published, types=tuple(sized))
            if own := list(_type_problems(document, place, graph, published)):
                raise SpecError(own)
            for number, names in enumerate(published.together):
                located(at("together", number), graph.order, names)
            app = located(at("request_types"), app_of, published)
            located(at("weights"), _check_parts, published, app, run)
            located(at("together"), roles_on, app, closed=False)
            _check_replicas(file, document, section, graph)
            demand[section.name] = located(at("demand", "trace"), demand_of, section.demand, folder, notes)
        except SpecError as error:
            problems += error.problems
            continue
        apps.append(published)
        runs |= {} if run is None else {section.name: run}
    if problems:
        raise SpecError(problems)
    return GraphApps(tuple(apps), demand, runs, tuple(dict.fromkeys(notes)))


def _run_by(published: PublishedApp, run: AppRun, engine: str) -> PublishedApp:
    """The app as an engine runs it: along the paths of its code, and with the memory that its weights take. Raises
    ValueError and LookupError as `task_of`."""
    family = str(published.config.get("model_type"))
    stored = [name for of, name in sorted(KEPT_AS_STORED) if of == family]
    size = onnx_bytes(run.weights) if stored else 0.0
    ran = replace(published, engine=engine, file_bytes=dict.fromkeys(stored, size) if size else {})
    if published.task is not None:
        return ran
    return replace(ran, task=task_of(run.task, recorded_task(run.task, run.name)).ways)


def _check_parts(published: PublishedApp, app: GraphApp, run: AppRun | None) -> None:
    """Raises ValueError for components that the app's engine does not compute, and for weights that it does not
    read."""
    visited = frozenset().union(*(kind.components for kind in app.types))
    order = app.graph.order(visited)
    if published.engine and (why := parts_refusal(published.engine, published.graph, published.config, order)):
        raise ValueError(why)
    makers = [name for name in order if app.graph.component(name).kind is ComponentKind.GENERATOR]
    if run is not None and is_on_hub(run.weights) and makers:
        raise ValueError(
            f"weights of {', '.join(makers)} are read from this machine alone: fetch them, and name `path:PATH` or "
            f"`package:NAME` in place of {run.weights}"
        )


def _lengths(section: RequestTypeSection, folder: Path, notes: list[str]) -> Lengths:
    given = section.lengths.value
    return given if section.workload is None else lengths_of(shape_of(section.workload, folder, notes), given)


def _sized(graph: ModelGraph, kind: PublishedType, section: LengthsSection) -> PublishedType:
    """With the tokens of an image of the size that is stated, if one is. Raises ValueError."""
    if section.image_size is None:
        return kind
    width, height = map(int, section.image_size.split("x"))
    tokens = float(image_layout(graph, width, height).image_tokens)
    return replace(kind, lengths=replace(kind.lengths, tokens_per_image=tokens))


def _published(section: AppSection, folder: Path, lengths: Sequence[Lengths]) -> PublishedApp:
    task = None if section.task is None else planned_task(section.task, folder)
    found = graph_beside(section.graph or "", folder) if task is None else task.graph
    types = tuple(
        PublishedType(each.type, each.share, own, each.slo.value)
        for each, own in zip(section.request_types, lengths, strict=True)
    )
    together = tuple(tuple(names.split("+")) for names in section.together)
    ways = None if task is None else task.ways
    return PublishedApp(section.name, found.id, found.revision, found.config, types, together, ways)


def _type_problems(document: Document, place: int, graph: ModelGraph, published: PublishedApp) -> Iterator[SpecProblem]:
    """Say of each type what is wrong with it, at its line."""
    for number, each in enumerate(published.types):
        try:
            located(
                document.position("apps", place, "request_types", number, "type"), typed, graph, each, published.task
            )
        except SpecError as error:
            yield from error.problems


def _check_replicas(file: FleetFile, document: Document, section: AppSection, graph: ModelGraph) -> None:
    """Bounds on instances are of one component each: what components do together has a class for each type."""
    valid = [f"{section.name}/{component.name}" for component in graph.components]
    wrong = [key for key in file.policy.replicas if key.partition("/")[0] == section.name and key not in valid]
    if wrong:
        raise SpecError(
            document.problem(
                ("policy", "replicas", key), f"policy.replicas: unknown work class {key!r}; {nearest_name(key, valid)}"
            )
            for key in wrong
        )
