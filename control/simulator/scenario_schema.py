"""Schema of a scenario file: `apiVersion: medley/v1`, `kind: Scenario`. Paths are relative to the file.

Every field's default is what the file means when it leaves the field out. docs/simulate.md tells it to people.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from control.fleet_file.numbers import NonNegative, NonNegativeCount, Number, Positive
from control.fleet_file.registered import RegisteredName
from control.fleet_file.section import Name, SpecSection
from policies.baselines import MEDLEY, strategies
from policies.priority import Priority

FIXED = "fixed"
"""The strategy of a scenario that plans nothing: `plan` holds."""


_OF_FLEETS = {"demand", "replan_minutes", "startup", "warm", "market"}
"""Keys that say how a fleet is kept over time."""


class DemandSeen(StrEnum):
    SPEC = "spec"
    """A stated rate, or a forecast of what is metered, as the fleet's spec has it."""
    ORACLE = "oracle"
    """What will come."""


class StreamSection(SpecSection):
    """Requests for one model. Streams of one model arrive together (they are mixed)."""

    model: str
    """Its name in the fleet."""
    trace: str | None = None
    """CSV file with arrivals, prompt and output lengths, or"""
    rates: str | None = None
    """a shipped rate series (or a CSV file of them, with `series` and `window_minutes`), or"""
    synthetic: Literal["poisson", "bursty", "diurnal"] | None = None
    """arrivals at `requests_per_s`: Poisson, bursty (gamma gaps of `cv`), or a daily wave of Poisson."""
    requests_per_s: Positive | None = None
    """Mean rate, to which all gaps of a trace are scaled alike; default: the trace's own."""
    priority: Priority = Priority.STANDARD
    """Of its requests: see `policies.priority`."""
    max_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    """What its clients allow an answer, so that gateways know it before; longer answers end there. Default: nothing."""
    scale: Positive | None = None
    """The same as a factor on the trace's own rate."""
    from_minutes: NonNegative = 0.0
    """Where in the trace, after scaling, the scenario begins."""
    repeat: bool = False
    """Begin the trace again at its end, as often as it takes."""
    workload: str | None = None
    """Shipped shape or CSV file that lengths are drawn from, of `rates` and `synthetic`; default: the model's own."""
    series: str | None = None
    window_minutes: Positive | None = None
    cv: Annotated[Number, Field(gt=1)] | None = None
    """Standard deviation over mean of the gaps, of `bursty`."""
    peak_to_trough: Annotated[Number, Field(ge=1)] | None = None
    peak_hour: Annotated[Number, Field(ge=0, lt=24)] | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        kinds = [name for name in ("trace", "rates", "synthetic") if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise ValueError("give one of trace, rates and synthetic")
        kind = self.synthetic or kinds[0]
        own = {
            "trace": {"scale", "from_minutes", "repeat"},
            "rates": {"scale", "from_minutes", "repeat", "workload", "series", "window_minutes"},
            "poisson": {"workload"},
            "bursty": {"workload", "cv"},
            "diurnal": {"workload", "peak_to_trough", "peak_hour"},
        }
        of_all = {"model", "trace", "rates", "synthetic", "requests_per_s", "priority", "max_tokens"}
        stray = sorted(self.model_fields_set - own[kind] - of_all)
        if stray:
            raise ValueError(f"{', '.join(stray)} cannot be given with {kind}")
        if self.synthetic and self.requests_per_s is None:
            raise ValueError("synthetic arrivals need requests_per_s")
        if self.requests_per_s is not None and self.scale is not None:
            raise ValueError("give requests_per_s or scale, not both")
        if self.synthetic == "bursty" and self.cv is None:
            raise ValueError("bursty arrivals need cv, above 1 (real traffic: 1.5 to 4)")
        if (self.series is None) != (self.window_minutes is None):
            raise ValueError("series and window_minutes belong together: they say how to read a file of rates")
        return self


class PricesSection(SpecSection):
    file: str
    """CSV file: time, zone, machine, market, usd_per_hour."""
    hold_hours: Positive | None = 24.0
    """A price holds until the next one, but for so long at most: a longer silence is a gap, which is refused; null:
    the log has a row for every change and no others."""


class AvailabilitySection(SpecSection):
    file: str
    """CSV file: time, zone, machine, market, available: nodes that can be held at once, until the next row."""
    known: bool = True
    """Whether the planner is told; false: it learns from refusals, as with real clouds."""


class MarketSection(SpecSection):
    """What is not named by a log stays as the fleet's own offers have it."""

    prices: PricesSection | None = None
    availability: AvailabilitySection | None = None


class StartupSection(SpecSection):
    """Time from a whole gang to its first request: drawn between the two for every instance."""

    least_minutes: NonNegative
    most_minutes: NonNegative

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.most_minutes < self.least_minutes:
            raise ValueError(f"most_minutes {self.most_minutes:g} is below least_minutes {self.least_minutes:g}")
        return self


class ScenarioFile(SpecSection):
    apiVersion: Literal["medley/v1"]  # noqa: N815 - as in every file of this kind
    kind: Literal["Scenario"]
    name: Name
    fleet: str | None = None
    """Its spec file, or"""
    snapshot: str | None = None
    """a recorded snapshot, whose plan is made once and stands from the start to the end."""
    templates: str | None = None
    """Templates file of a snapshot that has no recipe."""
    minutes: Positive
    """How long it lasts."""
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    """When it begins; logs with dates are read from there on."""
    seed: NonNegativeCount = 0
    strategy: Annotated[str, RegisteredName(lambda: (*strategies(), FIXED))] = MEDLEY
    plan: str | None = None
    """Plan of strategy `fixed`: what `medley plan -o json` printed."""
    demand: DemandSeen = DemandSeen.SPEC
    """What is planned for: what the spec says (a rate, or a forecast of what is metered), or what will come."""
    replan_minutes: Positive | None = None
    """Default: `reconcile.replan_minutes` of the fleet."""
    startup: StartupSection | None = None
    """Default: `policy.startup_minutes` of the fleet, always, and what an instance's engine takes to install."""
    warm: bool = True
    """The fleet of the first plan serves from the start on; false: it is launched then."""
    traffic: Annotated[list[StreamSection], Field(min_length=1)]
    market: MarketSection = MarketSection()

    @field_validator("start")
    @classmethod
    def _utc(cls, moment: datetime) -> datetime:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)

    @model_validator(mode="after")
    def _fixed(self) -> Self:
        if (self.strategy == FIXED) != (self.plan is not None):
            raise ValueError("strategy fixed and a plan belong together")
        return self

    @model_validator(mode="after")
    def _of_one(self) -> Self:
        if (self.fleet is None) == (self.snapshot is None):
            raise ValueError("give fleet, a spec file, or snapshot, a recorded one")
        of_other = _OF_FLEETS if self.fleet is None else {"templates"}
        if stray := sorted(self.model_fields_set & of_other):
            why = "a snapshot's plan is made once, and stands" if self.fleet is None else "they go with a snapshot"
            raise ValueError(f"leave {', '.join(stray)} out: {why}")
        return self
