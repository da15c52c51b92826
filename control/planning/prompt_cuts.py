"""Cuts of a model's prompts by length (`slo.max_prompt_tokens`), chosen from its own workload. Pure."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from control.planning.disks import charged_disks
from control.planning.objectives import models_of, parts_of
from control.planning.recipe import GraphRecipe, PipelineRecipe, Recipe, SourceRecipe
from templates_lib.apps.app import LONG, App, llm_app, serving_id, whole_of
from templates_lib.apps.served_model import ServedModel
from templates_lib.load.workload import WorkloadShape
from templates_lib.values.disks import Disks
from templates_lib.values.library import Library
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot

PERCENTS = (50.0, 80.0, 95.0)
"""Of the requests, those with the shortest prompts, that a cut leaves below it: where nobody says which."""
MOST_CUTS = 20
"""Of one model, asked for at most."""
EVEN_WORK = "half of the prompt tokens"


@dataclass(frozen=True, slots=True)
class PromptCut:
    max_prompt_tokens: int
    """The longest prompt of the shorter band; 0: no cut."""
    chosen: str
    """What is below it, for people; empty where it is another's choice."""
    long_share: float
    """Share of the requests above it."""
    long_work: float
    """Share of the prompt tokens above it."""


def checked_percents(percents: Iterable[float]) -> tuple[float, ...]:
    """Each once. Raises ValueError for what is no part of the requests, and for too many."""
    found = tuple(dict.fromkeys(percents))
    for percent in found:
        if not 0 < percent < 100:
            raise ValueError(
                f"{percent:g} % is no place to cut prompts at: give the share of the requests below the cut, more than "
                "0 and less than 100 %"
            )
    if len(found) > MOST_CUTS:
        raise ValueError(f"{len(found)} cuts are asked for: {MOST_CUTS} are the most")
    return found


def cuts_of(recipe: Recipe, model: str, percents: Iterable[float] = PERCENTS) -> tuple[PromptCut, ...]:
    """Return no cut, then by length that in force, those at these percents of the requests, and the one with half of
    the prompt tokens below. Cuts that leave nothing above are left out.

    Raises ValueError for a model that is not served, for one that promises nothing to requests that wait, for one whose
    prompts all have one length, and for percents that are none.
    """
    asked = checked_percents(percents)
    whole = whole_model(recipe, model)
    if not whole.slo.queueing:
        raise ValueError(
            f"{model} promises nothing to requests that wait (slo.keep: throughput), so that no cut could be seen to "
            "keep it: state slo.keep: {percentile: 99}, or name another model with --model"
        )
    if (taken := serving_id(model, LONG)) in models_of(recipe):
        raise ValueError(f"{model}: longer prompts would be served as {taken}, as another model of the fleet is called")
    lengths = np.sort(whole.shape.prompt_tokens)
    if lengths[0] == lengths[-1]:
        raise ValueError(f"{model}: every prompt of its workload has {lengths[0]:,} tokens: there is nothing to cut")
    found: dict[int, str] = {}
    for percent in asked:
        length = int(np.quantile(lengths, percent / 100, method="inverted_cdf"))
        found.setdefault(length, f"{percent:g} % of the requests")
    found.setdefault(_even_work(lengths), EVEN_WORK)
    if now := in_force(recipe, model):
        found.setdefault(now, "")
    lasting = sorted(length for length in found if length < lengths[-1])
    return (PromptCut(0, "", 0.0, 0.0), *(_cut(whole.shape, length, found[length]) for length in lasting))


def in_force(recipe: Recipe, model: str) -> int:
    """Return the cut that the model has, tokens; 0: none, or one that leaves nothing above. Raises as `parts_of`."""
    short, *longer = parts_of(recipe, model)
    return short.slo.max_prompt_tokens if longer else 0


def whole_model(recipe: Recipe, model: str) -> ServedModel:
    """Return what serves a model that is not cut. Raises ValueError, with the nearest name, for none of the fleet."""
    parts = parts_of(recipe, model)
    return parts[0] if len(parts) == 1 else whole_of(*parts)


def cut_at(recipe: Recipe, model: str, max_prompt_tokens: int) -> tuple[Recipe, App]:
    """Return the recipe with the model's prompts cut there (0: not at all), and the model as it is then: each band has
    the objectives of the whole. Raises as `whole_model`."""
    whole, before = whole_model(recipe, model), {each.name for each in parts_of(recipe, model)}
    app = llm_app(replace(whole, slo=replace(whole.slo, max_prompt_tokens=max_prompt_tokens)))

    def changed(source: SourceRecipe) -> SourceRecipe:
        if not isinstance(source, PipelineRecipe):
            return source
        place = min(n for n, served in enumerate(source.served) if served.name in before)
        served = [each for each in source.served if each.name not in before]
        return replace(source, served=(*served[:place], *app.components, *served[place:]))

    return Recipe(tuple(changed(each) for each in recipe.sources)), app


def cut_snapshot(
    snapshot: Snapshot, recipe: Recipe, library: Library, before: Sequence[ServedModel], app: App
) -> Snapshot:
    """Return what plans are made from that have `app` in place of `before`, which served it, as a spec with that cut
    has it: without utilisation caps, which are of other pools, and not versioned. `recipe`, `library`: with the cut."""
    old = {each.name for each in before}
    asked = [each for each in snapshot.demand if each.app in old]
    rate = sum(each.requests_per_s for each in asked)
    demand = [
        replace(each, app=s.app, request_type=s.request_type, requests_per_s=rate * s.share)
        for each in asked[:1]
        for s in app.shares
    ]
    routes = [route for served in app.components for route in served.routes()]
    return replace(
        snapshot,
        demand=_in_place(snapshot.demand, old, demand),
        routes=_in_place(snapshot.routes, old, routes),
        settings=_settings(snapshot.settings, before, app),
        disks=_disks(snapshot, recipe, library),
        barred=_barred(snapshot, before[0].name, app),
        library_version=library.version,
    )


class _OfAnApp(Protocol):
    @property
    def app(self) -> str: ...


_Each = TypeVar("_Each", bound=_OfAnApp)
_Known = TypeVar("_Known")


def _in_place(every: Sequence[_Each], old: Container[str], new: Iterable[_Each]) -> tuple[_Each, ...]:
    place = next((n for n, each in enumerate(every) if each.app in old), len(every))
    rest = [each for each in every if each.app not in old]
    return (*rest[:place], *new, *rest[place:])


def _settings(settings: Settings, before: Sequence[ServedModel], app: App) -> Settings:
    """What is known of how far the model's certificates are right is so for each band: it is of the model and nodes."""
    gone = {served.class_id(phase) for served in before for phase in served.phases}
    same = {served.class_id(phase): before[0].class_id(phase) for served in app.components for phase in served.phases}

    def of_bands(known: Mapping[str, _Known]) -> dict[str, _Known]:
        rest = {name: each for name, each in known.items() if name not in gone}
        return rest | {name: known[was] for name, was in same.items() if was in known}

    replicas = {name: each for name, each in settings.guardrails.replicas.items() if name not in gone or name in same}
    margins = settings.step_time_margins
    return replace(
        settings.capped({}),
        corrections=of_bands(settings.corrections),
        step_time_margins=margins if isinstance(margins, UnsetType) else of_bands(margins),
        guardrails=replace(settings.guardrails, replicas=replicas),
    )


def _disks(snapshot: Snapshot, recipe: Recipe, library: Library) -> Disks | UnsetType:
    if isinstance(snapshot.disks, UnsetType):
        return UNSET
    apps = [app for source in recipe.sources if isinstance(source, GraphRecipe) for app in source.apps]
    return charged_disks(recipe.served, apps, library, snapshot.disks.usd_per_gib_month)


def _barred(snapshot: Snapshot, was: str, app: App) -> dict[str, dict[str, tuple[str, ...]]] | UnsetType:
    if isinstance(snapshot.barred, UnsetType) or was not in snapshot.barred:
        return snapshot.barred
    return snapshot.barred | {served.name: snapshot.barred[was] for served in app.components}


def _even_work(lengths: NDArray[np.int32]) -> int:
    """The length up to which the sum of all prompts is nearest to half of it. `lengths`: in order, not all the same."""
    values, counts = np.unique(lengths, return_counts=True)
    below = np.cumsum(values * counts.astype(np.int64))[:-1]
    return int(values[np.argmin(np.abs(2 * below - lengths.sum(dtype=np.int64)))])


def _cut(shape: WorkloadShape, max_prompt_tokens: int, chosen: str) -> PromptCut:
    prompts = shape.prompt_tokens
    longer = prompts[prompts > max_prompt_tokens]
    work = float(longer.sum(dtype=np.int64) / prompts.sum(dtype=np.int64))
    return PromptCut(max_prompt_tokens, chosen, len(longer) / len(prompts), work)
