"""The library of a recipe: built source by source when it is not there yet, with the templates that run."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from control.planning.recipe import Recipe
from control.planning.source_kinds import SOURCE_KINDS, kind_of
from templates_lib.ports.library_store import LibraryStore, TemplateRecord
from templates_lib.ports.source import Progress, TemplateSource
from templates_lib.sources.library_union import joined_classes, union
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan
from templates_lib.values.template import Capacity, ServingTemplate


class UnservableError(ValueError):
    """Models that no template can serve: their objective, size or data type is out of reach of the nodes on offer."""


@dataclass(frozen=True, slots=True, eq=False)
class Templates:
    """A library with where it came from."""

    cost_model: str
    """`measured`, `estimated`, which of both for what, or `given` where somebody wrote the templates; of
    several sources, what each rests on."""
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
    template, capacity = SOURCE_KINDS[found.kind].read(found.record, found.nodes)
    return StoredTemplate(found.library_version, template, capacity)


def build_templates(recipe: Recipe, store: LibraryStore, progress: Progress) -> str:
    """The version of the library of `recipe`, built and stored on first use."""
    return _build(recipe, _sources(recipe), store, progress)


def obtain(recipe: Recipe, store: LibraryStore, progress: Progress, protected: Iterable[str] = ()) -> Templates:
    """The library of `recipe`, built and stored on first use. `protected` templates (they run) are in it too, unless
    they cannot keep the objectives of today.

    Raises UnservableError for models that are in none of its templates.
    """
    sources = _sources(recipe)
    library = store.load(_build(recipe, sources, store, progress))
    library = _with_running(sources, library, store, progress, protected)
    kinds = [(each, SOURCE_KINDS[kind_of(each)]) for each in recipe.sources]
    if problems := [why for each, kind in kinds for why in kind.unservable(each, library)]:
        raise UnservableError("\n".join(dict.fromkeys(problems)))
    evidence = dict.fromkeys(kind.evidence(each) for each, kind in kinds)
    return Templates("; ".join(evidence), library, store)


def _sources(recipe: Recipe) -> list[TemplateSource]:
    return [SOURCE_KINDS[kind_of(each)].source(each) for each in recipe.sources]


def _build(recipe: Recipe, sources: Sequence[TemplateSource], store: LibraryStore, progress: Progress) -> str:
    joined_classes(source.classes for source in sources)  # a build takes long, and would be for nothing
    parts = [
        build_library(source, store, progress, each.parameters)
        for each, source in zip(recipe.sources, sources, strict=True)
    ]
    return store.join(parts)


def _with_running(
    sources: Sequence[TemplateSource], library: Library, store: LibraryStore, progress: Progress, running: Iterable[str]
) -> Library:
    """`library` and those of the `running` templates that it lacks, with what they sustain under its objectives. What
    is of no class of it (a model that is served no more, or by another engine), or of a kind that is not certified
    again, is as it was certified last."""
    present = set(library.ids.tolist()) if running else set()
    found: dict[str, TemplateRecord] = {}
    for name in sorted(set(running)):
        if name.encode() not in present:
            with suppress(LookupError):
                found[name] = store.record(library.version, name)
    again, rest = [], set(found)
    for source in sources:
        own = {name: record for name, record in found.items() if record.kind == source.kind}
        if (recertify := SOURCE_KINDS[source.kind].recertify) and (certified := recertify(source, own)).running:
            again.append(certified)
            rest -= certified.running.keys()
    if rest:
        library = store.load(library.version, rest)
    for certified in again:
        library = union(library, store.load(build_library(certified, store, progress)))
    return library


def build_library(
    source: TemplateSource,
    store: LibraryStore,
    progress: Progress,
    parameters: Mapping[str, float] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> str:
    """The version of `source`'s library, whose missing units are built and stored one by one.

    Interrupted by anything, the units stored so far are kept and the rest is built next time. A library that is
    finished costs one query. Two builders of one library take turns; the second finds it finished. `clock` is
    monotonic, in seconds.
    """
    if (version := store.find(source.fingerprint)) is not None:
        return version
    with store.building(source, parameters or {}) as build:
        if missing := build.missing:
            before = clock()
            for batch in source.build(missing, progress):
                now = clock()
                build.add(batch, now - before)
                before = now
        return build.finish()
