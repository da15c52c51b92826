"""Section of a spec file about a model: its objective, its load, and how it may be served."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, field_validator, model_validator

from control.fleet_file.demand_section import DemandSection
from control.fleet_file.document import parse
from control.fleet_file.numbers import NonNegative, NonNegativeCount, Number, Positive
from control.fleet_file.problem import SpecError
from control.fleet_file.registered import RegisteredName
from control.fleet_file.section import Name, SpecSection, is_path, known, names_of
from templates_lib.values.engines import model_engines
from templates_lib.values.slo import Slo
from templates_lib.values.speculation import MOST_DRAFT_TOKENS, MOST_NGRAM, Speculation
from templates_lib.values.work import Phase

Read = TypeVar("Read")
LEAST_PROMISE, MOST_PROMISE = 50, 99.9
"""Percent of all requests that a plan can promise."""
WEIGHTS = r"^(hf:[A-Za-z0-9_./@-]+|(package|path):.+)$"
"""Places of weights, as specs name them."""


class KeepSection(SpecSection):
    """What a plan keeps of the objectives: a share of all requests, or throughput alone."""

    percentile: Annotated[Number, Field(ge=LEAST_PROMISE, le=MOST_PROMISE)] | None = None
    """Percent of all requests, those that wait included. Default: the percentile of `slo`."""
    throughput: Annotated[bool, Field(strict=True)] = False
    """Promise no share of them: the objective is that of a request that is alone."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.throughput and self.percentile is not None:
            raise ValueError("promises a percentile or throughput: remove one of the two")
        return self


class SloSection(SpecSection):
    """Latency objectives of a model."""

    ttft_ms: Positive
    """Milliseconds to the first token."""
    tpot_ms: Positive
    """Milliseconds for each token after the first."""
    ttft_ms_per_1k_prompt_tokens: NonNegative = 0.0
    """More milliseconds to the first token for each 1,000 tokens of the prompt."""
    keep: KeepSection = KeepSection()
    """What a plan keeps: `{percentile: 99}`, that share of all requests, those that wait included; or `throughput`, the
    objective of a request that is alone. Default: the share that `percentile` says."""
    percentile: Annotated[Number, Field(gt=0, lt=100)] = 99.0
    """Percent of requests for which the objectives must hold: of all where `keep` promises a share, else of prompts
    that are alone."""
    max_prompt_tokens: NonNegativeCount = 0
    """Longer prompts are served apart, with instances of their own; 0: none are."""
    late: Literal["serve", "refuse"] = "serve"
    """Whether a request that no instance can begin in time any more is served last, or refused with 503 as long as its
    client has nothing of the answer."""

    @field_validator("keep", mode="before")
    @classmethod
    def _throughput(cls, value: object) -> object:
        if isinstance(value, str) and value != "throughput":
            raise ValueError(f"is `throughput`, or like {{percentile: 99}}, not {value!r}")
        return {"throughput": True} if value in ("throughput", {"percentile": None}) else value

    @field_validator("percentile")
    @classmethod
    def _can_be_promised(cls, percentile: float, info: ValidationInfo) -> float:
        keep = info.data.get("keep")  # absent where it has an error of its own
        is_promised = keep is not None and not keep.throughput and keep.percentile is None
        if is_promised and not LEAST_PROMISE <= percentile <= MOST_PROMISE:
            raise ValueError(
                f"a plan can promise {LEAST_PROMISE} to {MOST_PROMISE} % of all requests, not {percentile:g} %: change"
                " it, or state `keep: throughput`, which promises none of those that wait"
            )
        return percentile

    @model_validator(mode="after")
    def _has_a_queue(self) -> Self:
        if self.late == "refuse" and self.keep.throughput:
            raise ValueError(
                "`late: refuse` is for requests that wait in the order of their objectives, which those of a model with"
                " `keep: throughput` do not: remove one of the two"
            )
        return self

    @property
    def value(self) -> Slo:
        fields = self.model_dump(exclude={"keep", "percentile", "late"})
        percentile = self.percentile if self.keep.percentile is None else self.keep.percentile
        return Slo(
            **fields, percentile=percentile, queueing=not self.keep.throughput, refuses_late=self.late == "refuse"
        )


class SpeculationSection(SpecSection):
    """Speculative decoding by prompt look-up."""

    ngram: Annotated[int, Field(strict=True, ge=1, le=MOST_NGRAM)] = 3
    """The text's last tokens that are looked for further up in it."""
    tokens: Annotated[int, Field(strict=True, ge=1, le=MOST_DRAFT_TOKENS)] = 4
    """Tokens of a draft, at most."""

    @property
    def value(self) -> Speculation:
        return Speculation(self.ngram, self.tokens)


class ModelSection(SpecSection):
    model: str
    """A model of the catalogue, or the name of a registered one; in a spec file also the path of a Hugging Face
    config.json, relative to the file."""
    name: Name | None = None
    """Name for clients, unique among the fleets that serve. Default: the model's name."""
    slo: SloSection
    workload: str
    """A shape of prompt and output lengths that ships with Medley; in a spec file also the path of a trace file."""
    demand: DemandSection
    """One of a fixed rate (`requests_per_s`), the rate of a `trace`, and what gateways meter (`metered`)."""
    disaggregated: bool = True
    """Compute prompts and answers on instances of their own."""
    aggregated: bool = False
    """Serve both on one instance; with `disaggregated` the planner chooses."""
    share: Literal["auto", "never", "only"] = "auto"
    """Whether it shares nodes with other models, where `policy.units` lets models share: where that is cheaper, never,
    or always. `only` has no instance of its own. Models that share keep `throughput` alone."""
    engine: Annotated[str, RegisteredName(model_engines)] | None = None
    """Engine that nodes run, and whose step times count. `vllm` serves whole models on rented nodes; `vllm-stage` is
    planned anywhere, and run on nodes of this machine. Default: on rented nodes `vllm` for instances of one node and
    `torch` for those of several; on other nodes `torch`."""
    prefix_cache: Annotated[bool, Field(strict=True)] = True
    """Begin a prompt with the KV blocks of those before it that began alike: turns of a chat, a system prompt. Plans do
    not count on it. Changes take effect with the next instances that start."""
    speculation: SpeculationSection | None = None
    """Draft tokens of answers by what their text says further up, and verify them together: answers are the same, in
    fewer steps where they quote or repeat. Of engine `torch`. Plans do not count on it. Changes take effect with the
    next instances that start. Default: nothing is drafted."""
    weights: Annotated[str, Field(pattern=WEIGHTS, max_length=256)] | None = None
    """`hf:ORG/NAME@REVISION` on the hub, or `package:NAME` where nodes find them; in a spec file also `path:PATH`,
    relative to the file. Default: where the model says."""

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
        """Name of the architecture: weights and profiles are known by it."""
        return self.served_name if is_path(self.model) else self.model

    @property
    def served_name(self) -> str:
        return self.name or self.model

    @property
    def phases(self) -> tuple[Phase, ...]:
        split = (Phase.PREFILL, Phase.DECODE) if self.disaggregated else ()
        return (*split, Phase.AGGREGATED) if self.aggregated else split


def slos_of(document: Mapping[str, Any]) -> dict[str, SloSection]:
    """Return the objectives of a stored spec's models that have some, by the name that clients use. Raises ValueError,
    LookupError, TypeError or AttributeError for what is no spec any more."""
    return {
        name: SloSection.model_validate(model["slo"]) for name, model in _models_of(document).items() if "slo" in model
    }


def served_names(document: Mapping[str, Any]) -> frozenset[str]:
    """Return the names that clients use for a stored spec's models. Raises as `slos_of`."""
    return frozenset(_models_of(document))


def architectures(document: Mapping[str, Any]) -> dict[str, str]:
    """Return what a stored spec's models are, by the name that clients use. Raises as `slos_of`."""
    return {name: str(model["model"]) for name, model in _models_of(document).items()}


def if_readable(read: Callable[[Mapping[str, Any]], Read], spec: str) -> Read | None:
    """Return what `read`, which may raise as `slos_of`, finds in a stored spec; None where it cannot be read: the loop
    sets such a fleet aside, and it keeps nothing from the others."""
    try:
        return read(parse(spec, "spec").value)
    except (SpecError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _models_of(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(model.get("name") or model["model"]): model for model in document.get("models") or ()}
