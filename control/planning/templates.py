"""The library of a recipe: built when it is not there yet, and what to say when a model is in none of its templates."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from control.library_build import build_library
from control.planning.cost_models import cost_models_of, evidence_of, gpus_of, how_to_measure
from control.planning.recipe import PipelineRecipe, Recipe, SloSplit
from templates_lib.apps.served_model import ServedModel
from templates_lib.ports.library_store import LibraryStore, TemplateRecord
from templates_lib.ports.source import Progress, TemplateSource
from templates_lib.sources.enumeration import config_bytes, node_sets
from templates_lib.sources.library_union import union
from templates_lib.sources.listed_source import KIND as LISTED
from templates_lib.sources.listed_source import ListedSource, read_listed
from templates_lib.sources.pipeline_record import KIND as PIPELINE
from templates_lib.sources.pipeline_record import read_record
from templates_lib.sources.pipeline_source import PipelineTemplateSource
from templates_lib.sources.recertified_source import RecertifiedSource
from templates_lib.throughput.nearest import nearest_miss
from templates_lib.values.gpu import GIB
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.template import Capacity, ServingTemplate
from templates_lib.values.work import Phase

READERS = {PIPELINE: read_record, LISTED: read_listed}
"""Kind of a source → what reads its records, whatever it was built from."""


class UnservableError(ValueError):
    """Models that no template can serve: their objective, size or data type is out of reach of the nodes on offer."""


@dataclass(frozen=True, slots=True, eq=False)
class Templates:
    """A library with where it came from."""

    cost_model: str
    """`measured`, `estimated`, which of both for what, or `given` where somebody wrote the templates."""
    library: Library
    store: LibraryStore

    def placed(self, plan: Plan) -> tuple[Plan, tuple[Capacity, ...]]:
        """`plan` with what each of its templates runs, and what those templates are certified for."""
        names = sorted({instance.template_id for instance in plan.instances})
        found = {name: stored_template(self.store, name, self.library.version) for name in names}
        instances = tuple(each.with_template(found[each.template_id].template) for each in plan.instances)
        return replace(plan, instances=instances), tuple(each.capacity for each in found.values())


@dataclass(frozen=True, slots=True)
class StoredTemplate:
    """A template as people ask for it, by id."""

    library_version: str
    """The newest library that has it."""
    template: ServingTemplate
    capacity: Capacity


def stored_template(store: LibraryStore, template_id: str, library_version: str = "") -> StoredTemplate:
    """Raises LookupError for an id that is in no finished library. `library_version`: where to look for it first."""
    found = store.record(library_version, template_id)
    template, capacity = READERS[found.kind](found.record, found.nodes)
    return StoredTemplate(found.library_version, template, capacity)


def build_templates(recipe: Recipe, store: LibraryStore, progress: Progress) -> str:
    """The version of the library of `recipe`, built and stored on first use."""
    return _build(template_source(recipe)[0], recipe, store, progress)


def obtain(recipe: Recipe, store: LibraryStore, progress: Progress, protected: Iterable[str] = ()) -> Templates:
    """The library of `recipe`, built and stored on first use. `protected` templates (they run) are in it too, unless
    they cannot keep the objectives of today.

    Raises UnservableError for models that are in none of its templates.
    """
    source, cost_model = template_source(recipe)
    library = store.load(_build(source, recipe, store, progress))
    library = _with_running(source, library, store, progress, protected)
    if recipe.pipeline is not None:
        _refuse_unservable(recipe.pipeline, library)
    return Templates(cost_model, library, store)


def _with_running(
    source: TemplateSource, library: Library, store: LibraryStore, progress: Progress, running: Iterable[str]
) -> Library:
    """`library` and those of the `running` templates that it lacks, with what they sustain under its objectives. What
    is of no class of it (a model that is served no more, or by another engine) is as it was certified last."""
    present = set(library.ids.tolist()) if running else set()
    found: dict[str, TemplateRecord] = {}
    for name in sorted(set(running)):
        if name.encode() not in present:
            with suppress(LookupError):
                found[name] = store.record(library.version, name)
    if not isinstance(source, PipelineTemplateSource):
        return store.load(library.version, found.keys()) if found else library
    anew = {n: r for n, r in found.items() if r.kind == PIPELINE and source.work_class_of(r.record)}
    if rest := found.keys() - anew.keys():
        library = store.load(library.version, rest)
    if anew:
        library = union(library, store.load(build_library(RecertifiedSource(source, anew), store, progress)))
    return library


def _build(source: TemplateSource, recipe: Recipe, store: LibraryStore, progress: Progress) -> str:
    parameters = {"n_max": float(recipe.pipeline.n_max), "rho": recipe.pipeline.rho} if recipe.pipeline else {}
    return build_library(source, store, progress, parameters)


def template_source(recipe: Recipe) -> tuple[TemplateSource, str]:
    """The source, and what its capacities rest on."""
    if recipe.listed is not None:
        return ListedSource(recipe.listed.classes, recipe.listed.templates), "given"
    assert recipe.pipeline is not None  # noqa: S101 - a recipe is one or the other
    pipeline = recipe.pipeline
    source = PipelineTemplateSource(
        pipeline.served,
        pipeline.nodes,
        gpus_of(pipeline),
        cost_models_of(pipeline),
        n_max=pipeline.n_max,
        rho=pipeline.rho,
        zone_bags=[frozenset(bag) for bag in pipeline.zone_bags],
        even_split=pipeline.slo_split is SloSplit.EVEN,
        unpruned=frozenset(pipeline.unpruned),
    )
    return source, evidence_of(pipeline)


def _refuse_unservable(recipe: PipelineRecipe, library: Library) -> None:
    possible = {library.classes[k].id for k in set(library.entry_class.tolist())}
    problems = []
    for served in recipe.served:
        routes = served.routes()
        if any(all(leg.work_class in possible for leg in route.legs) for route in routes):
            continue
        lacking = [p for p in served.phases if served.class_id(p) not in possible]
        problems += [_why(recipe, served, phase) for phase in lacking]
    if problems:
        raise UnservableError("\n".join(dict.fromkeys(problems)))


def _why(recipe: PipelineRecipe, served: ServedModel, phase: Phase) -> str:
    gpus = gpus_of(recipe)
    weights, most_bytes = served.model.weight_bytes, recipe.rho * served.model.weight_bytes
    sizes = [config_bytes(node, gpus) for node in recipe.nodes]
    if min(sizes, default=0.0) > most_bytes:
        return (
            f"{served.name}: no node is small enough: the smallest has {min(sizes) / GIB:.1f} GiB, but rho "
            f"{recipe.rho:g} allows {most_bytes / GIB:.1f} GiB for weights of {weights / GIB:.1f} GiB; raise solver.rho"
        )
    bags = [frozenset(bag) for bag in recipe.zone_bags]
    members = node_sets(served.model, recipe.nodes, gpus, bags, recipe.n_max, recipe.rho).members
    largest = float(np.append(sizes, 0.0)[members].sum(axis=1).max(initial=0.0))
    if 0 < largest < weights:
        return (
            f"{served.name} is larger than every node set: its weights are {weights / GIB:.1f} GiB, "
            f"the largest set within n_max {recipe.n_max} and rho {recipe.rho:g} holds {largest / GIB:.1f} GiB; "
            "raise solver.n_max or solver.rho, or offer larger nodes"
        )
    most_nodes = [min(recipe.n_max, int(most_bytes // size)) for size in sizes]
    miss = nearest_miss(served, phase, recipe.nodes, gpus, cost_models_of(recipe)[served.engine], most_nodes)
    if miss is None:
        return (
            f"{served.name} cannot run {phase.value} on any node on offer, however slowly: its data types "
            f"({served.model.dtype}, KV cache {served.model.kv_dtype}), its size, or passing its KV cache on in "
            f"time{' (slo.queueing: to short answers too)' if served.slo.queueing else ''} rule them out; offer other "
            "nodes or relax its SLO"
        )
    advice = how_to_measure(recipe)
    if served.slo.queueing:
        advice = "; ".join(filter(None, ("slo.queueing has it leave time for waiting", advice)))
    return (
        f"{served.name}: no configuration meets its objective for {phase.value}; {miss}; "
        f"relax its SLO or offer faster nodes{f'; {advice}' if advice else ''}"
    )
