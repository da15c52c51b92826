"""Demand for an app of a fleet: a rate that its spec states, or what gateways meter."""

from dataclasses import dataclass

from policies.forecast import Forecast
from policies.forecasts import FORECASTS
from policies.headroom_forecast import Headroom
from policies.metered_demand import DemandRule
from policies.metered_work import text_classes
from templates_lib.apps.app import App
from templates_lib.apps.graph_app import PublishedApp


@dataclass(frozen=True, slots=True)
class Stated:
    requests_per_s: float
    """Requests per second of all request types together."""
    priority: int


@dataclass(frozen=True, slots=True)
class ForecastChoice:
    """One of the forecasts, with its parameters."""

    policy: str
    half_life_s: float
    period_s: float
    quantile: float | None
    """None: no head-room."""
    window_s: float
    """Seconds within which head-room would have had to be enough."""

    def made(self) -> Forecast:
        chosen = FORECASTS[self.policy](self.half_life_s, self.period_s)
        return chosen if self.quantile is None else Headroom(chosen, self.quantile, self.window_s)


@dataclass(frozen=True, slots=True)
class Metered:
    """Rates are those of all request types together; what they mean is said in `DemandRule`."""

    forecast: ForecastChoice
    floor_requests_per_s: float
    ceiling_requests_per_s: float
    idle_s: float
    max_held_requests: int
    """Requests that one gateway holds while nothing serves the app."""
    hold_timeout_s: float
    """Longest time for which it is held, in seconds."""
    priority: int

    def rules(self, app: App | PublishedApp, horizon_s: float) -> tuple[DemandRule, ...]:
        """One for every request type of `app`; `horizon_s` as in `DemandRule`. Those of a graph are planned for by
        their number, whatever their lengths are."""
        text = app.request_types if isinstance(app, App) else ()
        work = {each.served.name: text_classes(each.served.name, *each.served.shape.mean_tokens) for each in text}
        return tuple(
            DemandRule(
                app=each.app,
                model=app.name,
                share=each.share,
                work=work.get(each.app, ()),
                request_type=each.request_type,
                forecast=self.forecast.made(),
                horizon_s=horizon_s,
                floor_requests_per_s=self.floor_requests_per_s,
                ceiling_requests_per_s=self.ceiling_requests_per_s,
                idle_s=self.idle_s,
                priority=self.priority,
            )
            for each in app.shares
        )
