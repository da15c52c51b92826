"""Units of work, the routes a request takes over them, and how many requests come."""

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_TYPE = "chat"
"""The request type that an app answers if nothing else is said of a request."""


class Phase(StrEnum):
    PREFILL = "prefill"
    DECODE = "decode"
    AGGREGATED = "aggregated"
    """Prefill and decode on the same instance, in one batch."""


class Unit(StrEnum):
    PROMPT_TOKEN = "prompt_token"  # noqa: S105
    OUTPUT_TOKEN = "output_token"  # noqa: S105
    IMAGE_TOKEN = "image_token"  # noqa: S105
    AUDIO_TOKEN = "audio_token"  # noqa: S105
    CODEC_TOKEN = "codec_token"  # noqa: S105
    """A token of speech, of all its codebooks, that a vocoder makes audio of."""
    DENOISING_STEP = "denoising_step"
    AUDIO_SECOND = "audio_second"
    INVOCATION = "invocation"

    @property
    def plural(self) -> str:
        """Name for people: `prompt tokens`."""
        return f"{self.value.replace('_', ' ')}s"


@dataclass(frozen=True, slots=True)
class WorkClass:
    """One kind of work that templates have capacity for, in `unit` per second."""

    id: str
    component: str
    """The model, or the part of an any-to-any model, that does the work."""
    phase: str
    """A `Phase`, or the name of another component's only phase (such as `encode`)."""
    unit: Unit
    shape_id: str
    """The workload shape under which capacity was certified."""
    slo_share_ms: float
    """This class's share of the request's latency objective, split over its stages when a template is made."""


@dataclass(frozen=True, slots=True)
class Leg:
    work_class: str
    units_per_request: float


@dataclass(frozen=True, slots=True)
class Edge:
    """Data that goes from leg `source` to leg `target` (indices into the route's legs)."""

    source: int
    target: int
    bytes_per_request: float


@dataclass(frozen=True, slots=True)
class Route:
    """One way to serve a request type. Several routes may serve the same demand."""

    id: str
    app: str
    request_type: str
    legs: tuple[Leg, ...]
    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests per second of one request type; a higher `priority` is served first when supply is short."""

    app: str
    request_type: str
    requests_per_s: float
    priority: int = 0

    @property
    def key(self) -> str:
        return f"{self.app}/{self.request_type}"
