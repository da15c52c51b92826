"""The registry of source kinds: how templates of each kind are made, read, and certified again."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from control.planning.cost_models import cost_models_of, evidence_of, gpus_of
from control.planning.graph_sources import cell_source, executor_source, graph_evidence, graph_unservable
from control.planning.recipe import (
    CellRecipe,
    ExecutorRecipe,
    ListedRecipe,
    PipelineRecipe,
    SourceRecipe,
    UnitRecipe,
)
from control.planning.unit_sources import unit_evidence, unit_source, unit_unservable
from control.planning.unservable import unservable
from templates_lib.ports.library_store import TemplateRecord
from templates_lib.ports.source import TemplateSource
from templates_lib.sources.graph_record import CELL, EXECUTOR, read_graph_record
from templates_lib.sources.listed_source import KIND as LISTED
from templates_lib.sources.listed_source import ListedSource, read_listed
from templates_lib.sources.pipeline_record import KIND as PIPELINE
from templates_lib.sources.pipeline_record import read_record
from templates_lib.sources.pipeline_source import PipelineTemplateSource
from templates_lib.sources.recertified_source import RecertifiedSource
from templates_lib.sources.unit_source import KIND as UNIT
from templates_lib.units.unit_template import read_unit_record
from templates_lib.values.library import Library
from templates_lib.values.settings import SloSplit
from templates_lib.values.template import Capacity, ServingTemplate


@dataclass(frozen=True, slots=True)
class SourceKind:
    recipe: type[Any]
    """A `SourceRecipe`: what a recipe says of a source of this kind. Files have it under the kind's name."""
    source: Callable[[Any], TemplateSource]
    """Makes the source that a recipe describes; its `kind` is this one's name."""
    read: Callable[[bytes, dict[str, int]], tuple[ServingTemplate, Capacity]]
    """The template in a stored record, with its nodes by configuration: of any release, whatever it was made from."""
    recertify: Callable[[Any, Mapping[str, TemplateRecord]], RecertifiedSource] | None = None
    """(source, templates of this kind that run and that it would not make) → the same under the objectives of today.
    None: they count for what they were certified for last."""
    evidence: Callable[[Any], str] = lambda _: "given"
    """Evidence that the capacities of a recipe rest on, for people."""
    unservable: Callable[[Any, Library], Iterable[str]] = lambda _recipe, _library: ()
    """(recipe, library of all sources) → why models of the recipe are in none of its templates, a line each."""


def pipeline_source(recipe: PipelineRecipe) -> PipelineTemplateSource:
    """Raises ValueError for what no build could use."""
    return PipelineTemplateSource(
        recipe.served,
        recipe.nodes,
        gpus_of(recipe),
        cost_models_of(recipe),
        n_max=recipe.n_max,
        rho=recipe.rho,
        zone_bags=[frozenset(bag) for bag in recipe.zone_bags],
        even_split=recipe.slo_split is SloSplit.EVEN,
        unpruned=frozenset(recipe.unpruned),
        starts=recipe.starts,
        partly=recipe.partly,
    )


def _listed_source(recipe: ListedRecipe) -> ListedSource:
    return ListedSource(recipe.classes, recipe.templates)


SOURCE_KINDS: dict[str, SourceKind] = {
    PIPELINE: SourceKind(PipelineRecipe, pipeline_source, read_record, RecertifiedSource, evidence_of, unservable),
    EXECUTOR: SourceKind(
        ExecutorRecipe, executor_source, read_graph_record, evidence=graph_evidence, unservable=graph_unservable
    ),
    CELL: SourceKind(CellRecipe, cell_source, read_graph_record, evidence=graph_evidence),
    UNIT: SourceKind(UnitRecipe, unit_source, read_unit_record, evidence=unit_evidence, unservable=unit_unservable),
    LISTED: SourceKind(ListedRecipe, _listed_source, read_listed),
}
"""Kind → what planning does with it. The name is stored beside each library: it may not change."""


def kind_of(recipe: SourceRecipe) -> str:
    """The name of its kind. Raises KeyError where that is not registered."""
    return {kind.recipe: name for name, kind in SOURCE_KINDS.items()}[type(recipe)]
