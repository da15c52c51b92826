"""What a spec file says of a model: its objective, its load, and how it may be served."""

from typing import Annotated, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from control.fleet_file.demand_section import DemandSection
from control.fleet_file.numbers import NonNegative, NonNegativeCount, Number, Positive
from control.fleet_file.section import Name, Section, is_path, known, names_of
from templates_lib.values.engines import EngineName
from templates_lib.values.work import Phase


class SloSection(Section):
    ttft_ms: Positive
    tpot_ms: Positive
    ttft_ms_per_1k_prompt_tokens: NonNegative = 0.0
    percentile: Annotated[Number, Field(gt=0, lt=100)] = 99.0
    max_prompt_tokens: NonNegativeCount = 0
    queueing: bool = False


class ModelSection(Section):
    model: str
    """Name in the catalogue, or path of a Hugging Face config.json relative to the spec file."""
    name: Name | None = None
    """Unique in the fleet; default: the model's name."""
    slo: SloSection
    workload: str
    """A shipped workload shape, or path of a trace file with lengths."""
    demand: DemandSection
    disaggregated: bool = True
    aggregated: bool = False
    engine: EngineName = "torch"
    """`vllm` is planned anywhere, and run on nodes of this machine."""
    weights: Annotated[str, Field(pattern=r"^(hf:[A-Za-z0-9_./@-]+|(package|path):.+)$", max_length=256)] | None = None
    """`hf:ORG/NAME@REVISION` on the hub, or `package:NAME` or `path:PATH` where nodes find them; a relative path is
    relative to the spec file."""

    @field_validator("model")
    @classmethod
    def _model(cls, name: str, info: ValidationInfo) -> str:
        return name if is_path(name) else known("model", name, names_of(info).models)

    @field_validator("workload")
    @classmethod
    def _workload(cls, name: str, info: ValidationInfo) -> str:
        return name if is_path(name) else known("workload shape", name, names_of(info).shapes)

    @model_validator(mode="after")
    def _served(self) -> Self:
        if not (self.disaggregated or self.aggregated):
            raise ValueError("set disaggregated or aggregated: a model with neither cannot be served")
        if is_path(self.model) and self.name is None:
            raise ValueError("give the model a name: its architecture comes from a file")
        return self

    @property
    def model_id(self) -> str:
        """Of the architecture: what weights and profiles are known by."""
        return self.served_name if is_path(self.model) else self.model

    @property
    def served_name(self) -> str:
        return self.name or self.model

    @property
    def phases(self) -> tuple[Phase, ...]:
        split = (Phase.PREFILL, Phase.DECODE) if self.disaggregated else ()
        return (*split, Phase.AGGREGATED) if self.aggregated else split
