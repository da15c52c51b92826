"""A fleet as its owner asks for it, whatever the market sells and gateways meter."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from control.cloud.local.kinds import LocalMachine
from control.cloud.ssh.own_host import OwnHost
from control.diff.limits import ChangeLimits, Disruption
from control.offers.port import MarketView
from control.offers.quotes import Quotes
from control.planning.app_demand import Metered, Stated
from control.planning.app_run import AppRun
from control.planning.offer_sources import OfferSources
from control.planning.sharing import Sharing
from policies.demand_history import DemandHistory
from policies.metered_demand import DemandOverride, DemandRule, demand_at
from policies.pools.scaling_settings import ScalingSettings
from templates_lib.apps.app import App
from templates_lib.apps.graph_app import PublishedApp
from templates_lib.values.offer import Market
from templates_lib.values.settings import Settings
from templates_lib.values.work import Demand


@dataclass(frozen=True, slots=True)
class ReconcileSettings:
    """Settings of the loop that keeps a fleet on its plan."""

    replan_minutes: float
    payback_minutes: float | None
    """Minutes within which a move that only saves money has to pay back what it costs; None: all moves are made."""
    payback_share: float | None
    """Share of the running instances that may be moved within an hour only to save money; None: any."""
    max_new_nodes_per_hour: int | None
    disruption: Disruption


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    name: str
    apps: tuple[App, ...]
    app_demand: Mapping[str, Stated | Metered]
    """Demand by app: stated or metered."""
    sources: OfferSources
    machines: tuple[LocalMachine, ...]
    """Kinds of node that it may have on this machine; none: it names no local cloud."""
    hosts: tuple[OwnHost, ...]
    """Machines of one's own."""
    settings: Settings
    reconcile: ReconcileSettings
    charges_disks: bool = True
    """Whether the disks of rented nodes are part of what plans cost."""
    step_time_margin: float = 0.0
    """Median errors of step times that utilisation caps make room for."""
    graph_apps: tuple[PublishedApp, ...] = ()
    """Any-to-any models."""
    sharing: Sharing | None = None
    """How its text models share nodes; None: none does."""
    app_runs: Mapping[str, AppRun] = field(default_factory=dict)
    """How those are run whose weights are known, by name."""
    bursts: ScalingSettings | None = None
    """How pools of those grow between two plans; None: they wait for the next one."""

    @property
    def every_app(self) -> tuple[App | PublishedApp, ...]:
        return *self.apps, *self.graph_apps

    @property
    def limits(self) -> ChangeLimits:
        kept = self.reconcile
        return ChangeLimits(self.settings.guardrails.max_usd_per_hour, kept.max_new_nodes_per_hour, kept.disruption)

    @property
    def demand_rules(self) -> tuple[DemandRule, ...]:
        """One for every request type of every app whose demand is metered."""
        return tuple(rule for app in self.every_app for rule in self._rules(app))

    def quotes(self, market: MarketView) -> Quotes:
        """Return what it may rent on `market`. Raises SpecError."""
        return market.judged(self.sources.quotes(market), self.settings.guardrails.max_unproven_nodes)

    def demand(
        self,
        histories: Mapping[str, DemandHistory],
        overrides: Mapping[str, DemandOverride],
        waiting: Mapping[str, int],
        now_s: float,
    ) -> tuple[Demand, ...]:
        """One demand a request type, 0 where nothing is to run. Arguments are those of `demand_at`: where all are
        empty, nothing was metered so far, and metered demand is its floor. Overrides count for stated demand, too."""
        found: list[Demand] = []
        for app in self.every_app:
            demand = self.app_demand[app.name]
            if isinstance(demand, Stated):
                rate = overrides.get(app.name, demand).requests_per_s
                found += (Demand(s.app, s.request_type, rate * s.share, demand.priority) for s in app.shares)
            else:
                found += demand_at(histories, self._rules(app), overrides, waiting, now_s)
        return tuple(found)

    def with_forecast(self, policy: str) -> "Fleet":
        """The same fleet, where the demand of every metered app is forecast by `policy`."""
        changed = {
            app: replace(each, forecast=replace(each.forecast, policy=policy)) if isinstance(each, Metered) else each
            for app, each in self.app_demand.items()
        }
        return replace(self, app_demand=changed)

    def without_churn_guard(self) -> "Fleet":
        """The same fleet, whose plans are carried out whatever their moves earn."""
        return replace(self, reconcile=replace(self.reconcile, payback_minutes=None))

    def replanned_every(self, minutes: float) -> "Fleet":
        return replace(self, reconcile=replace(self.reconcile, replan_minutes=minutes))

    def without_spot(self) -> "Fleet":
        """The same fleet, renting no spot node. Raises ValueError where a cloud of its then sells it nothing."""
        found = self.sources.selections
        kept = tuple(replace(each, markets=tuple(m for m in each.markets if m is not Market.SPOT)) for each in found)
        if not all(each.markets for each in kept):
            raise ValueError("without spot nodes a cloud of the spec sells nothing: add on-demand to its markets")
        return replace(self, sources=replace(self.sources, selections=kept))

    def _rules(self, app: App | PublishedApp) -> tuple[DemandRule, ...]:
        """Those of an app whose demand is metered."""
        demand = self.app_demand[app.name]
        if not isinstance(demand, Metered):
            return ()
        if isinstance(app, App):
            engines = {each.engine for served in app.components for each in served.by_engine()}
        else:
            engines = {app.engine}
        startup = max(map(self.settings.startup_minutes_of, engines))
        return demand.rules(app, 60 * (self.reconcile.replan_minutes + startup))
