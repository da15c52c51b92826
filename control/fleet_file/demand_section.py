"""Section of a spec file about a model's demand."""

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from control.fleet_file.numbers import NonNegative, NonNegativeCount, Number, Positive, Whole
from control.fleet_file.registered import RegisteredName
from control.fleet_file.section import SpecSection, is_path, known, names_of
from policies.forecasts import FORECASTS, PERIODS_S


class ForecastSection(SpecSection):
    """Forecast of demand that is metered."""

    policy: Annotated[str, RegisteredName(FORECASTS.keys)] = "ewma"
    """Policy that forecasts rates from past ones."""
    half_life_minutes: Positive = 15.0
    """Half-life of the recent mean, and of the level of a season."""
    period: Annotated[str, RegisteredName(PERIODS_S.keys)] = "day"
    """Length of a season."""
    quantile: Annotated[Number, Field(ge=0.5, lt=1)] | None = 0.9  # null: no head-room
    """Head-room: what the forecast would have needed to be enough in this share of the window."""
    window_hours: Positive = 24.0
    """Hours that head-room looks back."""


class HoldSection(SpecSection):
    """Requests that wait at a gateway while nothing serves a model whose demand is metered."""

    max_requests: NonNegativeCount = 100
    """Requests that wait at a time; more are refused."""
    timeout_s: Annotated[Positive, Field(le=3600)] = 600.0
    """Seconds that a request waits before it is refused."""


class ArrivalsSection(SpecSection):
    """How requests come around their mean rate. A plan that promises a percentile is simulated with such arrivals."""

    cv: Annotated[Number, Field(ge=0, le=50)] | None = None
    """Standard deviation over mean of the gaps between requests, which are gamma-distributed: 1 is Poisson, more is
    burstier. Default: 1."""
    trace: str | None = None
    """In a spec file the path of a trace with arrival times, as CSV: its gaps, scaled to the rate, come again and
    again."""

    @field_validator("trace")
    @classmethod
    def _trace(cls, name: str | None) -> str | None:
        if name is not None and not is_path(name):
            raise ValueError(f"{name!r} is no path of a file of arrival times (a path has a / or a suffix)")
        return name

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.cv is not None and self.trace is not None:
            raise ValueError("gaps are those of a trace, or drawn with a cv: remove one of the two")
        return self


class DemandSection(SpecSection):
    """A fixed rate, the rate of a trace times `scale`, or what gateways meter. `demand: metered` is short for the last,
    with all else as it is by default."""

    requests_per_s: Annotated[Number, Field(json_schema_extra={"exclusiveMinimum": 0})] | None = None
    """A fixed rate."""
    trace: str | None = None
    """A rate series that ships with Medley; in a spec file also the path of a trace with arrival times."""
    at: Literal["mean", "peak"] = "mean"
    """Rate of a trace that counts: the mean, or its busiest window (a trace file has windows of a minute)."""
    scale: Positive = 1.0
    """Factor on the rate of a trace."""
    metered: bool = False
    """Plan for what gateways are offered, and a forecast of it."""
    forecast: ForecastSection = ForecastSection()
    floor_requests_per_s: NonNegative = 0.0
    """Rate that is planned for whatever the forecast of metered demand says; 0: the model may go to zero."""
    ceiling_requests_per_s: Positive | None = None
    """Rate above which metered demand is not planned for. Default: none."""
    idle_minutes: Positive = 30.0
    """The model runs nothing after as long without a request of metered demand, and less than one to be expected."""
    hold: HoldSection = HoldSection()
    arrivals: ArrivalsSection = ArrivalsSection()
    """How requests come around the rate, for promises. Default: at random (Poisson)."""
    priority: Whole = 0
    """A higher one is served first when not all can be."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: object) -> object:
        return {"metered": True} if given == "metered" else given

    @field_validator("requests_per_s")
    @classmethod
    def _some(cls, rate: float | None) -> float | None:
        if rate is not None and rate < 0:
            raise ValueError(f"demand must be above 0, is {rate:g}")
        if rate == 0:
            raise ValueError("demand is 0, so nothing is to be planned for this model: give a rate or remove the model")
        return rate

    @field_validator("trace")
    @classmethod
    def _trace(cls, name: str | None, info: ValidationInfo) -> str | None:
        return name if name is None or is_path(name) else known("rate series", name, names_of(info).rates)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.requests_per_s is not None) + (self.trace is not None) + self.metered != 1:
            raise ValueError("give one of requests_per_s, trace and metered")
        of_metered = {"forecast", "floor_requests_per_s", "ceiling_requests_per_s", "idle_minutes", "hold"}
        if not self.metered and (stray := sorted(of_metered & self.model_fields_set)):
            raise ValueError(f"{', '.join(stray)} belong to metered demand")
        if self.ceiling_requests_per_s is not None and self.ceiling_requests_per_s < self.floor_requests_per_s:
            raise ValueError(f"ceiling {self.ceiling_requests_per_s:g} is below floor {self.floor_requests_per_s:g}")
        if self.trace is None and {"scale", "at"} & self.model_fields_set:
            raise ValueError("scale and at belong to trace; put the product into requests_per_s")
        return self
