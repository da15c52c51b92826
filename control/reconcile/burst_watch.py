"""Load of apps beyond what their plan has, seen between two plans: planned for at once, for a while.

Theory of operation: gateways report each minute what was asked of each pool, of encoders and of decoders. The scaling
policy (`policies.pools.scaling`) says of each whether that asks for more members than the plan has. If so, the app's
demand is set, as an operator would do it, to the highest rate of the last minutes with some room, and the fleet is to
be planned: within its limits, by its mode, where it costs least. That is renewed while more comes than the forecast
knows of, and lapses then; so less is planned for only when less has come for a while.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from control.db.database import Database
from control.db.demand import SETTLED, PostgresDemand
from control.db.demand_overrides import Override, PostgresDemandOverrides
from control.planning.app_demand import Metered
from control.planning.fleet import Fleet
from control.reconcile.metered_demand import HISTORY
from policies.demand_history import DemandHistory
from policies.metered_demand import DemandRule
from policies.pools.scaling import PoolScaler, PoolSize, Pulse
from templates_lib.values.plan import Plan

BURST = "burst"
"""Who makes such overrides."""
_STEP_S = 60
_RENEWED = 0.5
"""Share of its time after which a burst that goes on is renewed."""


class BurstWatch:
    """For one thread."""

    def __init__(self, database: Database) -> None:
        self._offered, self._overrides = PostgresDemand(database), PostgresDemandOverrides(database)
        self._scalers: dict[tuple[str, str], PoolScaler] = {}
        """By fleet and work class."""
        self._looked: dict[str, int] = {}
        """Fleet → number of the minute that was looked at last."""

    def look(self, fleet: Fleet, plan: Plan, now: datetime) -> tuple[str, ...]:
        """Set the demand of apps that are asked for more than `plan`, which the fleet runs by, has; say of each why it
        is to be planned now. Raises DatabaseUnavailableError."""
        settings, rules, step = fleet.bursts, _rules(fleet), int((now - SETTLED).timestamp()) // _STEP_S
        if settings is None or not rules or self._looked.get(fleet.name) == step:
            return ()
        self._looked[fleet.name] = step
        span = timedelta(seconds=settings.calm_s + 2 * _STEP_S)
        recent, found = self._offered.histories(fleet.name, now, span, _STEP_S), []
        working = self._overrides.working(fleet.name, now)
        for app, own in rules.items():
            heard = [recent[rule.key] for rule in own if rule.key in recent]
            known = working.get(app)
            if not heard or (known is not None and known.made_by != BURST):
                continue
            rates = _total(history.requests_per_s.tolist() for history in heard)
            why = self._short(fleet, app, plan, heard, now)
            goes_on = known is not None and rates[-1] > self._forecast(fleet, app, now)
            if why or goes_on:
                self._plan_for(fleet, app, rates, why or "more comes than the forecast knows of", known, now)
            found += [f"{app}: {why}"] if why else []
        return tuple(found)

    def _short(self, fleet: Fleet, app: str, plan: Plan, heard: list[DemandHistory], now: datetime) -> str:
        """Say which pools of an app have too few members; empty: none."""
        assert fleet.bursts is not None  # noqa: S101
        load: dict[str, float] = {}
        for history in heard:
            for (work_class, _), rates in history.units_per_s.items():
                load[work_class] = load.get(work_class, 0.0) + float(rates[-1])
        said = []
        for work_class, members in _pools(plan, app).items():
            capacity = fleet.settings.utilisation_cap * sum(members) / len(members)
            scaler = self._scalers.setdefault((fleet.name, work_class), PoolScaler(capacity, fleet.bursts))
            scaler.capacity = capacity
            size = PoolSize(planned=len(members), awake=0, asleep=0, rented=0)
            change = scaler.decide(now.timestamp(), Pulse(load.get(work_class, 0.0), 0.0), size)
            said += [f"{work_class} has {len(members)}, and {change.why}"] if change.rent else []
        return "; ".join(said)

    def _forecast(self, fleet: Fleet, app: str, now: datetime) -> float:
        """Requests/s of an app that a plan is made for without overrides."""
        histories = self._offered.histories(fleet.name, now, HISTORY)
        demand = fleet.demand(histories, {}, self._offered.waiting(fleet.name, now), now.timestamp())
        return sum(each.requests_per_s for each in demand if each.app == app)

    def _plan_for(
        self, fleet: Fleet, app: str, rates: list[float], why: str, known: Override | None, now: datetime
    ) -> None:
        settings, asked = fleet.bursts, fleet.app_demand[app]
        assert settings is not None  # noqa: S101
        assert isinstance(asked, Metered)  # noqa: S101
        rate = min((1 + settings.band) * max(rates), asked.ceiling_requests_per_s)
        lasts = timedelta(seconds=settings.calm_s)
        if known is None or rate > known.requests_per_s or known.expires_at - now < _RENEWED * lasts:
            self._overrides.set(fleet.name, Override(app, rate, BURST, why, now, now + lasts))


def _rules(fleet: Fleet) -> Mapping[str, list[DemandRule]]:
    """Those of any-to-any models whose demand is metered, by app."""
    found: dict[str, list[DemandRule]] = {}
    apps = {app.name for app in fleet.graph_apps}
    for rule in fleet.demand_rules:
        if rule.model in apps:
            found.setdefault(rule.model, []).append(rule)
    return found


def _pools(plan: Plan, app: str) -> dict[str, list[float]]:
    """Work class → what each instance of a plan that does it sustains."""
    found: dict[str, list[float]] = {}
    for instance in plan.instances:
        for work_class, units_per_s in instance.units_per_s.items():
            if work_class.startswith(f"{app}/") and units_per_s > 0:
                found.setdefault(work_class, []).extend([units_per_s] * instance.count)
    return found


def _total(rates: Iterable[list[float]]) -> list[float]:
    """Sum of series that end now, over the steps that all have."""
    known = list(rates)
    steps = min(map(len, known))
    return [sum(each[len(each) - steps + step] for each in known) for step in range(steps)]
