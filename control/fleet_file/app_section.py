"""Section of a spec file about an app that is a graph of components: an any-to-any model."""

from typing import Annotated, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from control.fleet_file.demand_section import DemandSection
from control.fleet_file.model_section import LEAST_PROMISE, MOST_PROMISE, WEIGHTS
from control.fleet_file.numbers import Number, Positive
from control.fleet_file.registered import RegisteredName
from control.fleet_file.section import Name, SpecSection, check_different, is_path, is_task_file, known, names_of
from templates_lib.graphs.objective import TypeObjective
from templates_lib.graphs.request_type import MIX_TOLERANCE, Lengths
from templates_lib.values.engines import graph_engines

TYPICAL = Lengths()


class LengthsSection(SpecSection):
    """What a typical request of a type brings and wants."""

    prompt_tokens: Positive = TYPICAL.prompt_tokens
    """Tokens of text in the prompt."""
    output_tokens: Positive = TYPICAL.output_tokens
    """Tokens of a text that is written."""
    images: Positive = TYPICAL.images
    """Images in the prompt."""
    tokens_per_image: Positive = TYPICAL.tokens_per_image
    """Tokens that an image is encoded as."""
    image_size: Annotated[str, Field(pattern=r"^[0-9]{1,5}x[0-9]{1,5}$")] | None = None
    """Width and height of an image in pixels, such as `896x896`: its tokens are counted as the model's own processor
    does, in place of `tokens_per_image`."""
    clips: Positive = TYPICAL.clips
    """Clips that are heard."""
    clip_s: Positive = TYPICAL.clip_s
    """Seconds of a clip."""
    speech_s: Positive = TYPICAL.speech_s
    """Seconds of a spoken answer."""
    image_pixels: Positive = TYPICAL.image_pixels
    """Pixels of an image that is made."""
    steps: Positive = TYPICAL.steps
    """Denoising steps of such an image."""

    @model_validator(mode="after")
    def _one_measure(self) -> Self:
        if {"image_size", "tokens_per_image"} <= self.model_fields_set:
            raise ValueError("image_size says how many tokens an image is: leave out tokens_per_image")
        return self

    @property
    def value(self) -> Lengths:
        """Without what only the model knows: how many tokens an image of `image_size` is."""
        return Lengths(**self.model_dump(exclude={"image_size"}))


class ObjectiveSection(SpecSection):
    """Latency objectives of a request type: `ttft_ms` and `tpot_ms` where the answer is text, `first_audio_ms` and
    `real_time_factor` where it is spoken, `image_s` where it is an image."""

    ttft_ms: Positive | None = None
    """Milliseconds to the first token."""
    tpot_ms: Positive | None = None
    """Milliseconds for each token after the first."""
    first_audio_ms: Positive | None = None
    """Milliseconds to the first sound."""
    real_time_factor: Positive | None = None
    """Seconds in which a second of speech is made."""
    image_s: Positive | None = None
    """Seconds to the whole image."""
    percentile: Annotated[Number, Field(ge=LEAST_PROMISE, le=MOST_PROMISE)] | None = None
    """Percent of requests that a plan promises to answer whole in time, waiting included: by simulation. Default: none,
    and objectives bound only how many requests are served at once."""

    @property
    def value(self) -> TypeObjective:
        return TypeObjective(**self.model_dump(exclude_none=True))


class RequestTypeSection(SpecSection):
    """Requests that visit the same components."""

    type: str
    """What comes in and what goes out, such as `image-text-to-text`; `medley graphs show` lists those of a model."""
    share: Annotated[Number, Field(gt=0, le=1)]
    """Share of the app's requests."""
    slo: ObjectiveSection
    """Which of them are needed depends on the answer."""
    lengths: LengthsSection = LengthsSection()
    """Mean lengths. Default: those of the Cornserve paper."""
    workload: str | None = None
    """A shape that ships with Medley (`servegen-mm-image`), whose means replace those of `lengths` that it has columns
    of; in a spec file also the path of a trace file, relative to the file."""

    @field_validator("workload")
    @classmethod
    def _workload(cls, name: str | None, info: ValidationInfo) -> str | None:
        return name if name is None or is_path(name) else known("workload shape", name, names_of(info).shapes)


class AppSection(SpecSection):
    """An any-to-any model. With `weights` it is run; without, it is planned to look at."""

    name: Name
    """Name for clients, unique among models and apps."""
    graph: str | None = None
    """An any-to-any model that ships with Medley (`medley graphs list`); in a spec file also the path of the
    `config.json` that it is published with, relative to the file. This or `task`."""
    task: str | None = None
    """A task in Python, which says the model, its request types and the paths that they may take: one that ships with
    Medley (`medley tasks list`); in a spec file also `FILE.py:NAME`, relative to the file (`medley tasks check` tries
    it)."""
    request_types: Annotated[list[RequestTypeSection], Field(min_length=1)]
    """Types of requests, whose shares add up to 1."""
    demand: DemandSection
    """A fixed rate (`requests_per_s`), that of a `trace`, or, with `weights`, what gateways meter (`metered`), of all
    types together."""
    weights: Annotated[str, Field(pattern=WEIGHTS, max_length=256)] | None = None
    """Checkpoint of the whole model: `hf:ORG/NAME@REVISION` on the hub, or `package:NAME` (`package:NAME/FOLDER`) where
    nodes find it; in a spec file also `path:PATH`, relative to the file. Default: none, and the app is planned to look
    at, and not started."""
    engine: Annotated[str, RegisteredName(graph_engines)] | None = None
    """Engine that computes its components, each in executors of its own. Default: `components`, where there are
    `weights`."""
    together: list[str] = Field(default=[])
    """With `graph`, without `weights`: sets of components that one executor may run, each joined by `+`
    (`vision+language`). Default: every run of neighbours, from one to all."""

    @field_validator("graph")
    @classmethod
    def _graph(cls, name: str | None, info: ValidationInfo) -> str | None:
        return name if name is None or name.endswith(".json") else known("graph", name, names_of(info).graphs)

    @field_validator("task")
    @classmethod
    def _task(cls, name: str | None, info: ValidationInfo) -> str | None:
        # Those that ship have the names of their graphs.
        return name if name is None or is_task_file(name) else known("task", name, names_of(info).graphs)

    @field_validator("request_types")
    @classmethod
    def _mix(cls, types: list[RequestTypeSection]) -> list[RequestTypeSection]:
        check_different("request types", [each.type for each in types])
        if abs((total := sum(each.share for each in types)) - 1) > MIX_TOLERANCE:
            raise ValueError(f"the shares of the request types add up to {total:g}; they must add up to 1")
        return types

    @model_validator(mode="after")
    def _is_one_model(self) -> Self:
        if (self.graph is None) == (self.task is None):
            raise ValueError("an app is of a graph or of a task: give one of both")
        if self.task is not None and self.together:
            raise ValueError("together is for a graph; a task says what runs together: remove one of both")
        if self.weights is None and self.engine is not None:
            raise ValueError(f"engine {self.engine} computes by weights: say where they are (`weights`)")
        if self.weights is not None and self.together:
            raise ValueError("together is to look at: engines compute each component by itself; remove it or weights")
        return self

    @model_validator(mode="after")
    def _can_be_planned(self) -> Self:
        if self.demand.metered and self.weights is None:
            raise ValueError(
                "gateways meter apps that run, and this one has no `weights`: say where they are, or give demand a "
                "rate (requests_per_s) or a trace"
            )
        if {"arrivals"} & self.demand.model_fields_set:
            raise ValueError("demand.arrivals is for promises, and none is given for apps yet: remove it")
        return self
