"""Load of apps beyond what their plan has, seen between two plans: planned for at once, for a while.

Theory of operation: gateways report each minute what was asked of each pool, of encoders and of decoders. The scaling
policy (`policies.pools.scaling`) says of each whether that asks for more members than the plan has. If so, the app's
demand is set, as an operator would do it, to the highest rate of the last minutes with some room, and the fleet is to
be planned: within its limits, by its mode, where it costs least. That is renewed while more comes than the forecast
knows of, and lapses then; so less is planned for only when less has come for a while. A fleet that cannot have more (at
its ceiling, with no more for sale, or while nobody agrees to its plan) is not planned again until yet more comes.
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
        self._looked: dict[str, int] = {}
        """Fleet → number of the minute that was looked at last."""

    def look(self, fleet: Fleet, plan: Plan, now: datetime) -> tuple[str, ...]:
        """Set the demand of apps that are asked for more than `plan`, which the fleet runs by, has; say of each that is
        asked for more than before why it is to be planned now. Raises DatabaseUnavailableError."""
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
            why, known_of = _short(fleet, app, plan, heard, now), 0.0
            if why or known is not None:
                known_of = self._forecast(fleet, app, now)
            if not why and (known is None or rates[-1] <= known_of):
                continue
            said = why or "more comes than the forecast knows of"
            if self._is_more_planned_for(fleet, app, max(known_of, _roomy(fleet, rates)), said, known, now) and why:
                found.append(f"{app}: {why}")
        return tuple(found)

    def _forecast(self, fleet: Fleet, app: str, now: datetime) -> float:
        """Requests/s of an app that a plan is made for without overrides."""
        histories = self._offered.histories(fleet.name, now, HISTORY)
        demand = fleet.demand(histories, {}, self._offered.waiting(fleet.name, now), now.timestamp())
        return sum(each.requests_per_s for each in demand if each.app == app)

    def _is_more_planned_for(
        self, fleet: Fleet, app: str, rate: float, why: str, known: Override | None, now: datetime
    ) -> bool:
        """Set the demand of an app, up to its ceiling; tell whether that is more than was planned for."""
        settings, asked = fleet.bursts, fleet.app_demand[app]
        assert settings is not None  # noqa: S101
        assert isinstance(asked, Metered)  # noqa: S101
        rate, lasts = min(rate, asked.ceiling_requests_per_s), timedelta(seconds=settings.calm_s)
        is_more = known is None or rate > known.requests_per_s
        if known is None or is_more or known.expires_at - now < _RENEWED * lasts:
            self._overrides.set(fleet.name, Override(app, rate, BURST, why, now, now + lasts))
        return is_more


def _short(fleet: Fleet, app: str, plan: Plan, heard: list[DemandHistory], now: datetime) -> str:
    """Say which pools of an app have too few members; empty: none."""
    assert fleet.bursts is not None  # noqa: S101
    load: dict[str, float] = {}
    for history in heard:
        for (work_class, _), rates in history.units_per_s.items():
            load[work_class] = load.get(work_class, 0.0) + float(rates[-1])
    said = []
    for work_class, members in _pools(plan, app).items():
        capacity = fleet.settings.utilisation_cap * sum(members) / len(members)
        scaler = PoolScaler(capacity, fleet.bursts)
        size = PoolSize(planned=len(members), awake=0, asleep=0, rented=0)
        change = scaler.decide(now.timestamp(), Pulse(load.get(work_class, 0.0), 0.0), size)
        said += [f"{work_class} has {len(members)}, and {change.why}"] if change.rent else []
    return "; ".join(said)


def _roomy(fleet: Fleet, rates: list[float]) -> float:
    """The highest of these rates, with room above it."""
    assert fleet.bursts is not None  # noqa: S101
    return (1 + fleet.bursts.band) * max(rates)


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
