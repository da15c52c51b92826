"""Promises of a running fleet against the answers that gateways counted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import sqrt
from typing import Protocol

import numpy as np

from control.db.corrections import PostgresCorrections
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.instances import PostgresInstances
from control.db.slo_samples import PostgresSloSamples
from control.fleet.kept_promises import judged_minutes, model_of
from control.lifecycle.state import InstanceState
from control.planning.promise import utilisation
from policies.correction import Correction, Counted, Evidence, corrected, kept_share
from policies.demand_history import DemandHistory
from templates_lib.values.instance import Instance
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

LONGEST = timedelta(hours=6)
"""Answers that are older say nothing of the fleet as it is."""
_MINUTE = timedelta(minutes=1)
_BLOCK = 5
"""Minutes that count or not together, by how much was asked in them."""
_SPREAD = 3.0
"""1 + the squared coefficient of variation of a request's work, as much as workloads of text have."""
_BEYOND = 3.0
"""Standard errors of the load of a block, above the planned one, beyond which more was asked than planned for."""

Minutes = Mapping[datetime, Counted]


class Corrections(Protocol):
    def in_force(self, fleet: str) -> Mapping[str, Correction]:
        """Return the corrections by work class."""
        ...

    def due(
        self, fleet: str, plan: Plan, snapshot: Snapshot, own: Iterable[Instance], now: datetime
    ) -> dict[str, Correction]:
        """Return the corrections that are to be others from now on. `plan`: the one in force, made on `snapshot`;
        `own`: the instances of the fleet."""
        ...


class NoCorrections:
    """Nobody counts answers."""

    def in_force(self, fleet: str) -> Mapping[str, Correction]:  # noqa: ARG002 - see the protocol
        return {}

    def due(self, *_: object) -> dict[str, Correction]:
        return {}


@dataclass(frozen=True, slots=True)
class MeasuredCorrections:
    """Corrections by what the database has of answers and of load. Every method raises DatabaseUnavailableError."""

    database: Database

    def in_force(self, fleet: str) -> Mapping[str, Correction]:
        return PostgresCorrections(self.database).of_fleet(fleet)

    def due(
        self, fleet: str, plan: Plan, snapshot: Snapshot, own: Iterable[Instance], now: datetime
    ) -> dict[str, Correction]:
        if not plan.attainment:
            return {}
        before, fingerprint = self.in_force(fleet), snapshot.cost_model_fingerprint
        due = {name: _anew(each, now, fingerprint) for name, each in before.items() if each.is_outdated(fingerprint)}
        for name, seen in self._evidence(fleet, plan, snapshot, tuple(own), before, now):
            found = None if name in due else corrected(before.get(name), seen, now)
            if found is not None:
                due[name] = replace(found, cost_model=fingerprint)
        return due

    def _evidence(
        self,
        fleet: str,
        plan: Plan,
        snapshot: Snapshot,
        own: Sequence[Instance],
        before: Mapping[str, Correction],
        now: datetime,
    ) -> Iterator[tuple[str, Evidence]]:
        """Yield what is known of each promised class whose instances all serve."""
        models = {name: model_of(name) for name in plan.attainment}
        samples = PostgresSloSamples(self.database).read(set(models.values()), now - LONGEST, now)
        if not any(sample.judged for sample in samples):
            return
        histories = PostgresDemand(self.database).histories(fleet, now, LONGEST, step_s=60)
        drained = PostgresInstances(self.database).drained_since(fleet, now - LONGEST)
        caps = snapshot.settings.utilisation_caps
        alone = replace(snapshot.settings, corrections={})
        used = utilisation(plan, snapshot, lambda name, each: alone.cap(name, each.template_id, each.nodes))
        for name, promise in plan.attainment.items():
            steady = steady_since(plan, models[name], own)
            if steady is None or name not in used or name not in caps:
                continue
            changed = (before[name].changed_at,) if name in before else ()
            since = max(now - LONGEST, steady, *drained, *changed)
            load = _Load.of(name, plan, snapshot, histories)
            promised, share_used = min(promise.percentile / 100, promise.share), used[name]
            objectives = []
            for minutes in judged_minutes(name, samples, since).values():
                counted = load.within(minutes)
                if (kept := kept_share([minutes[minute] for minute in counted])) is not None:
                    asked = load.share_asked(counted, minutes)
                    objectives.append(Evidence(promised, kept, share_used, since, asked))
            if objectives:  # the worst of them decides
                yield name, min(objectives, key=lambda seen: seen.kept.low)


def _anew(before: Correction, now: datetime, fingerprint: str) -> Correction:
    """Return no correction in the place of one that was of other step times."""
    return Correction(
        1.0,
        now,
        f"step times are others than those that {before.factor:.2f} was a correction of",
        cost_model=fingerprint,
    )


def steady_since(plan: Plan, model: str, own: Sequence[Instance]) -> datetime | None:
    """Return the time from which all instances serve that the plan wants of the model; None: some do not."""
    wanted: Counter[tuple[str, str, str]] = Counter()
    for planned in plan.instances:
        if planned.model == model:
            wanted[planned.template_id, planned.zone, planned.market] += planned.count
    templates = {template for template, _, _ in wanted}
    ready = [each for each in own if each.template_id in templates and each.state == InstanceState.READY]
    there = Counter((each.template_id, each.zone, str(each.market)) for each in ready)
    if not ready or any(there[key] < count for key, count in wanted.items()):
        return None
    return max(datetime.fromisoformat(each.state_since) for each in ready)


@dataclass(frozen=True, slots=True)
class _Load:
    """Load of a work class: what was planned for, and what was asked, minute by minute."""

    units_per_s: float
    requests_per_s: float
    """Planned, as is `units_per_s`."""
    asked: Mapping[datetime, float]
    """Units/s; empty where nobody counted."""

    @classmethod
    def of(cls, work_class: str, plan: Plan, snapshot: Snapshot, histories: Mapping[str, DemandHistory]) -> "_Load":
        routes = {route.id: route for route in snapshot.routes}
        units = requests = 0.0
        keys = set()
        for flow in plan.flows:
            route = routes[flow.route]
            for leg in route.legs:
                if leg.work_class == work_class:
                    units += flow.requests_per_s * leg.units_per_request
                    requests += flow.requests_per_s
                    keys.add(f"{route.app}/{route.request_type}")
        asked: defaultdict[datetime, float] = defaultdict(float)
        for history in (histories[key] for key in keys if key in histories):
            rates = [rates for (name, _), rates in history.units_per_s.items() if name == work_class]
            # A class that is not metered by itself has its requests counted.
            own = np.sum(rates, axis=0) if rates else history.requests_per_s * (units / requests)
            first_s = history.end_s - history.step_s * len(history.requests_per_s)
            for place, rate in enumerate(own):
                asked[datetime.fromtimestamp(first_s + place * history.step_s, UTC)] += float(rate)
        return cls(units, requests, asked)

    def within(self, minutes: Minutes) -> list[datetime]:
        """Return the minutes in which no more was asked than planned for, nor shortly before: a queue that has formed
        takes a while. Empty where more was asked on the whole: that is for the demand's forecast to find."""
        blocks: defaultdict[int, list[datetime]] = defaultdict(list)
        for minute in sorted(minutes):
            blocks[int(minute.timestamp()) // 60 // _BLOCK].append(minute)
        over = {block for block, own in blocks.items() if self._is_over(own, minutes)}
        counted = [m for block, own in blocks.items() if not {block, block - 1} & over for m in own]
        return [] if self._is_over(counted, minutes) else counted

    def share_asked(self, counted: Sequence[datetime], minutes: Minutes) -> float:
        """Return the load of these minutes over the planned one."""
        if not counted or self.units_per_s <= 0:
            return 0.0
        return sum(self._rate(minute, minutes) for minute in counted) / len(counted) / self.units_per_s

    def _rate(self, minute: datetime, minutes: Minutes) -> float:
        """Return units/s; where load is not metered, as many as were answered."""
        if minute in self.asked:
            return self.asked[minute]
        return minutes[minute].answers / 60 * self.units_per_s / self.requests_per_s

    def _is_over(self, counted: Sequence[datetime], minutes: Minutes) -> bool:
        if not counted or self.requests_per_s <= 0:
            return False
        requests = 60 * len(counted) * self.requests_per_s
        return self.share_asked(counted, minutes) > 1 + _BEYOND * sqrt(_SPREAD / requests)
