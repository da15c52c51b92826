"""Load of apps beyond what their plan has, seen between two plans: planned for at once, for a while.

Theory of operation: gateways report each minute what was asked of each pool, of encoders and of decoders, and every few
seconds what the last ten of them were and how many answers of the last minute were in time. The scaling policy
(`policies.pools`) says of each pool whether that asks for more members than the plan has, and of the app whether it is
late beyond chance though all that is planned serves. If so, the app's demand is set, as an operator would do it, to the
highest rate of the last minutes with some room, or to what one more of the busiest pool would sustain, and the fleet is
to be planned: within its limits, by its mode, where it costs least. That is renewed while more is asked for than the
forecast knows of, and lapses then; so less is planned for only when less has come for a while. A fleet that cannot have
more (at its ceiling, with no more for sale, or while nobody agrees to its plan) is not planned again until yet more
comes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

from control.db.database import Database
from control.db.demand import SETTLED, PostgresDemand
from control.db.demand_overrides import Override, PostgresDemandOverrides
from control.db.plans import PostgresPlans
from control.demand.heard_load import HeardLoad
from control.fleet.planned_pools import usable_units_per_s
from control.planning.app_demand import Metered
from control.planning.fleet import Fleet
from control.planning.graph_sources import app_works
from control.planning.world import World
from control.reconcile.burst_load import Asked, Seen, asked_of
from control.reconcile.metered_demand import HISTORY
from control.reconcile.promises_kept import steady_since
from policies.metered_demand import DemandRule
from policies.pools.app_pools import AppPools
from policies.pools.lateness import ATTAINED_S
from policies.pools.scaling import PoolScaler, PoolSize, Pulse
from policies.pools.scaling_settings import ScalingSettings
from templates_lib.apps.app_work import AppWork
from templates_lib.values.instance import Instance
from templates_lib.values.plan import Plan

BURST = "burst"
"""Who makes such overrides; nobody else has a name like it (`control.lifecycle.fleet_event.RECONCILER`)."""
_STEP_S = 60
_RENEWED = 0.5
"""Share of its time after which a burst that goes on is renewed."""
_SAME = 1.01
"""Rates that differ by less are the same: units of few requests are rounded."""


class BurstWatch:
    """For one thread; `heard` may be written to by others."""

    def __init__(self, database: Database) -> None:
        self.heard = HeardLoad()
        """What gateways say of the last seconds; where they say nothing, what they report each minute counts alone."""
        self._offered, self._overrides = PostgresDemand(database), PostgresDemandOverrides(database)
        self._plans = PostgresPlans(database)
        self._usable: dict[str, tuple[str, dict[str, list[float]]]] = {}
        """Fleet → id of the plan that it was found of, and what that may have its members do."""
        self._looked: dict[str, int] = {}
        """Fleet → number of the minute that was looked at last."""
        self._seen: dict[tuple[str, str], Seen] = {}
        """(fleet, app)."""

    def look(self, world: World, plan: Plan, now: datetime, own: Iterable[Instance] = ()) -> tuple[str, ...]:
        """Set the demand of apps that are asked for more than `plan`, which the fleet runs by, has, or that are late
        with it; say of each that is asked for more than before why it is to be planned now. `own`: the fleet's
        instances, without which nothing is known to be late. Raises DatabaseUnavailableError."""
        fleet, step = world.fleet, int((now - SETTLED).timestamp()) // _STEP_S
        settings, rules, lately = fleet.bursts, _rules(fleet), self.heard.of(fleet.name, now)
        is_same = self._looked.get(fleet.name) == step and not lately
        if settings is None or not rules or is_same:
            return ()
        self._looked[fleet.name] = step
        span = timedelta(seconds=settings.calm_s + 2 * _STEP_S)
        recent = self._offered.histories(fleet.name, now, span, _STEP_S)
        working, instances, found = self._overrides.working(fleet.name, now), tuple(own), []
        works, usable = app_works(world.sources), self._usable_units_per_s(world, plan)
        for app, each in rules.items():
            known = working.get(app)
            if known is not None and known.made_by != BURST:
                continue
            work = works[app]
            own_settings, pools = _with_promise(settings, work), _pools(usable, work, each)
            asked = asked_of(each, recent, lately, pools)
            if asked is None:
                continue
            seen = self._seen.setdefault((fleet.name, app), Seen())
            seen.take(asked, now, own_settings)
            is_steady = _is_steady(plan, app, instances, now)
            why = _short(pools, asked, settings, now)
            why = why or seen.late_with(pools, asked, now, own_settings, is_steady=is_steady)
            if (said := self._planned_for(fleet, app, seen, why, known, now)) and why:
                found.append(f"{app}: {why}; {said}")
        return tuple(found)

    def _planned_for(self, fleet: Fleet, app: str, seen: Seen, why: str, known: Override | None, now: datetime) -> str:
        """Set the demand of an app, up to its ceiling, where more is asked for than its plan has (`why`), or still
        more than the forecast knows of; say to what, where that is more than before and nobody else has set it."""
        settings, metered = fleet.bursts, fleet.app_demand[app]
        assert settings is not None  # noqa: S101
        assert isinstance(metered, Metered)  # noqa: S101
        if not why and known is None:
            return ""
        forecast = self._forecast(fleet, app, seen, now)
        if not why and seen.needed <= _SAME * forecast:
            return ""
        ceiling, lasts = metered.ceiling_requests_per_s, timedelta(seconds=settings.calm_s)
        rate = min(max(forecast, (1 + settings.band) * seen.peak, seen.enough), ceiling)
        # Room is for what varies: a rate within it is no reason to plan again.
        is_more = known is None or min(max(forecast, seen.peak, seen.enough), ceiling) > known.requests_per_s
        if known is not None and not is_more and known.expires_at - now >= _RENEWED * lasts:
            return ""
        reason = why or "more is asked for than the forecast knows of"
        until = now + lasts
        is_set = self._overrides.set_unless_others(fleet.name, Override(app, rate, BURST, reason, now, until))
        return f"planned for {rate:.3g} requests/s until {until:%H:%M} at least" if is_set and is_more else ""

    def _forecast(self, fleet: Fleet, app: str, seen: Seen, now: datetime) -> float:
        """Requests/s of an app that a plan is made for without overrides. It is of minutes, and found once in each."""
        step = int(now.timestamp()) // _STEP_S
        if seen.forecast is None or seen.forecast[0] != step:
            histories = self._offered.histories(fleet.name, now, HISTORY)
            demand = fleet.demand(histories, {}, self._offered.waiting(fleet.name, now), now.timestamp())
            seen.forecast = step, sum(each.requests_per_s for each in demand if each.app == app)
        return seen.forecast[1]

    def _usable_units_per_s(self, world: World, plan: Plan) -> dict[str, list[float]]:
        """By the settings that the plan was made with: what they let a pool do is what it was planned for."""
        known = self._usable.get(world.fleet.name)
        if known is not None and known[0] == plan.id:
            return known[1]
        try:
            settings = self._plans.snapshot(plan.snapshot_version).settings
        except (LookupError, ValueError):  # it is stored no more, or an earlier release's
            settings = world.fleet.settings
        found = usable_units_per_s(plan, settings)
        self._usable[world.fleet.name] = plan.id, found
        return found


def _short(pools: AppPools, asked: Asked, settings: ScalingSettings, now: datetime) -> str:
    """Say which pools of an app have too few members; empty: none."""
    said = []
    for work_class, members in pools.members.items():
        scaler = PoolScaler(sum(members) / len(members), settings)
        size = PoolSize(planned=len(members), awake=0, asleep=0, rented=0)
        change = scaler.decide(now.timestamp(), Pulse(asked.units_per_s.get(work_class, 0.0), 0.0), size)
        said += [f"{work_class} has {len(members)}, and {change.why}"] if change.rent else []
    return "; ".join(said)


def _with_promise(settings: ScalingSettings, work: AppWork) -> ScalingSettings:
    """A plan is made to have as many answers in time as it promises (`slo.percentile`): no more are missed. Answers
    count together, whatever their type."""
    promised = [each.objective.percentile / 100 for each in work.app.types if each.objective is not None]
    least = min((share for share in promised if share > 0), default=1.0)
    return replace(settings, threshold=min(settings.threshold, least))


def _is_steady(plan: Plan, app: str, own: tuple[Instance, ...], now: datetime) -> bool:
    """Tell whether all that is planned of an app has served for as long as answers count."""
    since = steady_since(plan, app, own)
    return since is not None and (now - since).total_seconds() >= ATTAINED_S


def _rules(fleet: Fleet) -> Mapping[str, list[DemandRule]]:
    """Those of any-to-any models whose demand is metered, by app."""
    found: dict[str, list[DemandRule]] = {}
    apps = {app.name for app in fleet.graph_apps}
    for rule in fleet.demand_rules:
        if rule.model in apps:
            found.setdefault(rule.model, []).append(rule)
    return found


def _pools(usable: Mapping[str, list[float]], work: AppWork, rules: Iterable[DemandRule]) -> AppPools:
    """`usable`: work class → units/s that the plan may have each member do."""
    own = f"{work.app.name}/"
    members = {name: each for name, each in usable.items() if name.startswith(own) and sum(each) > 0}
    units: dict[str, float] = {}
    routes = work.routes()
    for rule in rules:
        legs = chain.from_iterable(route.legs for route in routes if route.request_type == rule.request_type)
        for work_class, amount in {leg.work_class: leg.units_per_request for leg in legs}.items():
            units[work_class] = units.get(work_class, 0.0) + rule.share * amount
    return AppPools(members, units)
