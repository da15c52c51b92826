"""Recipes of libraries: enough to build the same library again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from templates_lib.apps.graph_app import PublishedApp
from templates_lib.apps.served_model import ServedModel
from templates_lib.sources.listed_source import ListedTemplate
from templates_lib.sources.unit_source import NamedUnit
from templates_lib.values.component_profile import ComponentProfile
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.node_profile import NodeProfile
from templates_lib.values.settings import SloSplit, StepTimes
from templates_lib.values.work import Unit, WorkClass


class SourceRecipe(Protocol):
    """The part of a library that comes from one source. `control.planning.source_kinds` says of which kind it is."""

    @property
    def parameters(self) -> Mapping[str, float]:
        """Kept with the library for people to read."""
        ...

    @property
    def tokens_per_unit(self) -> Mapping[str, float]:
        """Work class id → tokens of one unit, for those classes where it is known."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PipelineRecipe:
    """Pipeline templates of some models over some node configurations."""

    served: tuple[ServedModel, ...]
    nodes: tuple[NodeConfig, ...]
    zone_bags: tuple[tuple[str, ...], ...]
    """Sets of configurations that one zone offers together."""
    n_max: int
    rho: float
    slo_split: SloSplit
    unpruned: tuple[str, ...] = ()
    """Names of models of which every template is kept, because a guardrail of theirs limits how many instances run."""
    gpus: tuple[Gpu, ...] = ()
    """GPUs of `nodes` that the catalogue does not know."""
    profiles: tuple[NodeProfile, ...] = ()
    """Measured profiles; all else is estimated."""
    step_times: StepTimes = StepTimes.BEST
    """Source of what is estimated."""
    starts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Engine → configurations that some cloud sells which starts it: models that are planned only where they are
    started run on those alone."""
    partly: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Engine → those of them that other clouds sell too, which do not start it (`World.snapshot` keeps them out)."""

    def by_engine(self, served: ServedModel) -> Iterator[tuple[ServedModel, tuple[NodeConfig, ...]]]:
        """Yield a model for each of its engines alone, with the nodes that templates of that engine may be of."""
        for each in served.by_engine():
            started = self.starts.get(each.engine, ()) if each.only_where_started else None
            yield each, tuple(node for node in self.nodes if started is None or node.id in started)

    @property
    def engines(self) -> tuple[str, ...]:
        """Return the engines of its models, by name."""
        return tuple(sorted({each.engine for served in self.served for each in served.by_engine()}))

    @property
    def parameters(self) -> dict[str, float]:
        return {"n_max": float(self.n_max), "rho": self.rho}

    @property
    def tokens_per_unit(self) -> dict[str, float]:
        lengths = {s.name: s.shape.mean_prompt_tokens + s.shape.mean_output_tokens for s in self.served}
        return {
            c.id: lengths[s.name] if c.unit is Unit.INVOCATION else 1.0 for s in self.served for c in s.work_classes()
        }


@dataclass(frozen=True, slots=True, eq=False)
class UnitRecipe:
    """Shared units: several of these models on one node."""

    served: tuple[ServedModel, ...]
    """Models that may be members, each by the engine of units, in the phase in which they serve it."""
    nodes: tuple[NodeConfig, ...]
    gpus: tuple[Gpu, ...] = ()
    """GPUs of `nodes` that the catalogue does not know."""
    profiles: tuple[NodeProfile, ...] = ()
    """As of `PipelineRecipe`."""
    step_times: StepTimes = StepTimes.BEST
    most_members: int = 8
    only: frozenset[str] = frozenset()
    """Models that have no instance of their own."""
    also: tuple[NamedUnit, ...] = ()
    """Units that are made beside those that a node has listed."""

    def by_engine(self, served: ServedModel) -> Iterator[tuple[ServedModel, tuple[NodeConfig, ...]]]:
        """Yield the model with the nodes that it may be on."""
        yield served, self.nodes

    @property
    def engines(self) -> tuple[str, ...]:
        """Return the engines of its models, by name."""
        return tuple(sorted({served.engine for served in self.served}))

    @property
    def parameters(self) -> dict[str, float]:
        return {"max_members": float(self.most_members)}

    @property
    def tokens_per_unit(self) -> dict[str, float]:
        return {each.id: sum(s.shape.mean_tokens) for s in self.served for each in s.work_classes()}


@dataclass(frozen=True, slots=True)
class ListedRecipe:
    """Templates that are given, not enumerated."""

    classes: tuple[WorkClass, ...]
    templates: tuple[ListedTemplate, ...]

    @property
    def parameters(self) -> dict[str, float]:
        return {}

    @property
    def tokens_per_unit(self) -> dict[str, float]:
        return {c.id: 1.0 for c in self.classes if c.unit is not Unit.INVOCATION}


@dataclass(frozen=True, slots=True, eq=False)
class GraphRecipe:
    """Templates of any-to-any models over some node configurations."""

    apps: tuple[PublishedApp, ...]
    nodes: tuple[NodeConfig, ...]
    gpus: tuple[Gpu, ...] = ()
    """GPUs of `nodes` that the catalogue does not know."""
    unpruned: tuple[str, ...] = ()
    """As of `PipelineRecipe`, by app."""
    profiles: tuple[ComponentProfile, ...] = ()
    """Measured encoders; all else is estimated."""

    @property
    def parameters(self) -> dict[str, float]:
        return {"apps": float(len(self.apps))}

    @property
    def tokens_per_unit(self) -> dict[str, float]:
        """None: rows of an image, steps and answers of other models are not to be added up."""
        return {}


@dataclass(frozen=True, slots=True, eq=False)
class ExecutorRecipe(GraphRecipe):
    """Of one deployment option on each node."""


@dataclass(frozen=True, slots=True, eq=False)
class CellRecipe(GraphRecipe):
    """Of several options beside each other on the GPUs of a node."""


TimedRecipe = PipelineRecipe | UnitRecipe
"""Those whose templates are made of step times."""


class Recipe:
    """The sources of a library, one of each kind at most. Of a template that several give, the first one counts.

    No dataclass: a file has it as an object, kind → source (`control.planning.recording`).
    """

    def __init__(self, sources: tuple[SourceRecipe, ...]) -> None:
        if not sources or len({type(source) for source in sources}) < len(sources):
            raise ValueError("a recipe has one source or more, and of each kind one at most")
        self.sources = sources

    @property
    def served(self) -> tuple[ServedModel, ...]:
        """Return the models whose weights nodes hold."""
        found: dict[str, ServedModel] = {}
        for source in self.sources:
            if isinstance(source, PipelineRecipe | UnitRecipe):
                for served in source.served:
                    found.setdefault(served.name, served)
        return tuple(found.values())

    @property
    def tokens_per_unit(self) -> dict[str, float]:
        """Work class id → tokens of one unit, for those classes where it is known."""
        return {name: tokens for source in self.sources for name, tokens in source.tokens_per_unit.items()}
