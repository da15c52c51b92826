"""What a library is built from: enough to build the same one again."""

from dataclasses import dataclass
from enum import StrEnum

from templates_lib.apps.served_model import ServedModel
from templates_lib.sources.listed_source import ListedTemplate
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.node_profile import NodeProfile
from templates_lib.values.work import Unit, WorkClass


class SloSplit(StrEnum):
    EVEN = "even"
    UNEVEN = "uneven"


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
    """Of `nodes`, those that the catalogue does not know."""
    profiles: tuple[NodeProfile, ...] = ()
    """What was measured; all else is estimated."""


@dataclass(frozen=True, slots=True)
class ListedRecipe:
    """Templates that are given, not enumerated."""

    classes: tuple[WorkClass, ...]
    templates: tuple[ListedTemplate, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """Exactly one of the two."""

    pipeline: PipelineRecipe | None = None
    listed: ListedRecipe | None = None

    def __post_init__(self) -> None:
        if (self.pipeline is None) == (self.listed is None):
            raise ValueError("a recipe is either `pipeline` or `listed`")

    @property
    def tokens_per_unit(self) -> dict[str, float]:
        """Work class id → tokens of one unit, for those classes where it is known."""
        if self.listed is not None:
            return {c.id: 1.0 for c in self.listed.classes if c.unit is not Unit.INVOCATION}
        served = self.pipeline.served if self.pipeline else ()
        lengths = {s.name: s.shape.mean_prompt_tokens + s.shape.mean_output_tokens for s in served}
        return {c.id: lengths[s.name] if c.unit is Unit.INVOCATION else 1.0 for s in served for c in s.work_classes()}
