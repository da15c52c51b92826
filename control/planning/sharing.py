"""Models of a fleet that may share nodes: which of them do, and what keeps one alone."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from control.fleet_file.document import Document
from control.fleet_file.model_section import ModelSection
from control.fleet_file.problem import SpecError
from control.fleet_file.schema import FleetFile
from control.planning.recipe import PipelineRecipe, UnitRecipe
from templates_lib.apps.app import App
from templates_lib.apps.served_model import ServedModel
from templates_lib.sources.unit_source import LEAST_MEMBERS, NamedUnit
from templates_lib.units.unit_capacity import ENGINE
from templates_lib.values.clouds import LOCAL

NOT_RUN = (
    "shared units (`policy.units`) are planned for all clouds, and started on the local one only so far: take "
    "`policy.units` out to have what a plan rents elsewhere started"
)


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a fleet's models share nodes."""

    most_members: int
    may: tuple[str, ...]
    """Models that may be members of units."""
    only: frozenset[str]
    """Those of them that have no instance of their own."""
    alone: Mapping[str, str]
    """Model → why it is no member, of those that would be."""


def sharing_of(file: FleetFile, document: Document, apps: Iterable[App]) -> Sharing | None:
    """Return how the models of a file share nodes; None: none may. Raises SpecError for one that is to share and
    cannot."""
    if file.policy.units is None:
        return None
    by_name = {app.name: app for app in apps}
    may, alone, problems = [], dict[str, str](), []
    for place, section in enumerate(file.models):
        app = by_name.get(section.served_name)
        if section.share == "never" or app is None:
            continue
        why = _why_alone(section, app)
        if why is None:
            may.append(app.name)
        elif section.share == "only":
            problems.append(document.problem(("models", place, "share"), f"{app.name} cannot share: {why}"))
        else:
            alone[app.name] = why
    only = frozenset(section.served_name for section in file.models if section.share == "only")
    if len(may) < LEAST_MEMBERS:
        why = "`share: only`, and no other model of the fleet may share; set `share: auto`"
        for place, section in enumerate(file.models):
            if section.served_name in only.intersection(may):
                problems.append(document.problem(("models", place, "share"), f"{section.served_name}: {why}"))
    if problems:
        raise SpecError(problems)
    return Sharing(file.policy.units.max_members, tuple(may), only, alone)


def _why_alone(section: ModelSection, app: App) -> str | None:
    if len(app.components) > 1 or section.slo.max_prompt_tokens:
        return "prompts above slo.max_prompt_tokens are served apart; take that limit out"
    (served,) = app.components
    if served.under(ENGINE) is None:
        engines = " or ".join(each.engine for each in served.by_engine())
        return f"members of units are run by engine {ENGINE}, and it by {engines}; take `engine` out, or name {ENGINE}"
    if served.slo.queueing:
        return "units keep no percentile of requests that wait yet; state `slo.keep: throughput`"
    return None


def units_not_run(sharing: Sharing | None, clouds: Collection[str]) -> tuple[str, ...]:
    """Say that nothing starts the units which plans of a fleet on these clouds may have; nothing where it does."""
    return (NOT_RUN,) if sharing is not None and set(clouds) - {LOCAL} else ()


def alone_notes(sharing: Sharing | None) -> tuple[str, ...]:
    """Say of each model that would share why it does not."""
    alone = {} if sharing is None else sharing.alone
    return tuple(f"{name} is planned without others: {why}" for name, why in alone.items())


def without_shared(served: Sequence[ServedModel], sharing: Sharing | None) -> tuple[ServedModel, ...]:
    """Return the models with the phases that instances of their own have: none of those that only share."""
    only = sharing.only if sharing is not None else frozenset()
    return tuple(replace(s, disaggregated=False, aggregated=False) if s.name in only else s for s in served)


def with_shared(served: ServedModel, sharing: Sharing | None) -> ServedModel:
    """Return a model with the phases that it may be served in: members of units do prompts and answers."""
    return replace(served, aggregated=True) if sharing is not None and served.name in sharing.may else served


def unit_recipe(whole: PipelineRecipe, sharing: Sharing, also: tuple[NamedUnit, ...] = ()) -> UnitRecipe | None:
    """Return the recipe of the units of those models that may share; None where fewer than two may."""
    alone = (served.under(ENGINE) for served in whole.served if served.name in sharing.may)
    members = tuple(replace(each, disaggregated=False, aggregated=True) for each in alone if each is not None)
    if len(members) < LEAST_MEMBERS:
        return None
    nodes = tuple(node for node in whole.nodes if node.id in whole.starts.get(ENGINE, ()))
    own = whole.gpus, whole.profiles, whole.step_times
    return UnitRecipe(members, nodes, *own, sharing.most_members, sharing.only, also) if nodes else None
