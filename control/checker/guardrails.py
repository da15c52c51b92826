"""Checks of what the fleet's owner asked for besides the demand."""

from collections import defaultdict
from collections.abc import Iterator

from control.checker.case import Case
from control.checker.service import load_of
from control.checker.violation import Violation, slack
from templates_lib.values.offer import Market
from templates_lib.values.settings import Mode


def violations(case: Case) -> Iterator[Violation]:
    rails = case.snapshot.settings.guardrails
    budget = rails.max_usd_per_hour
    if budget is not None and case.plan.usd_per_hour > budget + slack(budget):
        yield Violation("budget", "usd_per_hour", f"at most {budget}", f"{case.plan.usd_per_hour}")
    yield from _replicas(case)
    in_zone: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for (work_class, zone), load in load_of(case).items():
        in_zone[work_class][zone] = load
    for work_class, by_zone in sorted(in_zone.items()):
        yield from _spot_share(case, work_class, sum(by_zone.values()))
        yield from _zone_share(case, work_class, by_zone)


def _replicas(case: Case) -> Iterator[Violation]:
    """A minimum that supply cannot give is no violation when the plan says so: a reason of kind `replicas`."""
    admitted = {r.subject for r in case.plan.reasons if r.kind == "replicas"}
    for work_class, replicas in case.snapshot.settings.guardrails.replicas.items():
        count = sum(i.count for i in case.plan.instances if work_class in i.units_per_s)
        too_few = count < replicas.min and work_class not in admitted
        if too_few or (replicas.max is not None and count > replicas.max):
            highest = "any" if replicas.max is None else str(replicas.max)
            yield Violation("replicas", work_class, f"{replicas.min} to {highest} instances", f"{count}")


def _spot_share(case: Case, work_class: str, load: float) -> Iterator[Violation]:
    """Check that at least 1 − share of what is served is covered by capacity that is not spot."""
    share = case.snapshot.settings.guardrails.max_spot_share
    capacity = sum(_by_zone(case, work_class, steady=True).values())
    if capacity + slack(load) < (1 - share) * load:
        expected = f"at least {(1 - share) * load} units/s that are not spot"
        yield Violation("spot_share", work_class, expected, f"{capacity}")


def _zone_share(case: Case, work_class: str, by_zone: dict[str, float]) -> Iterator[Violation]:
    """No zone covers more than its share of the demand, what is unmet included.

    Mode `paper` has no flow per zone: there the zones' capacities, each cut off at the share, must cover the load.
    """
    share = case.snapshot.settings.guardrails.max_zone_share
    load = sum(by_zone.values())
    most = share * (load + _unmet_load(case, work_class))
    if case.snapshot.settings.mode is Mode.PAPER:
        covered = sum(min(capacity, most) for capacity in _by_zone(case, work_class, steady=False).values())
        if covered + slack(load) < load:
            expected = f"{load} units/s from zones of at most {most} each"
            yield Violation("zone_share", work_class, expected, f"{covered}")
        return
    for zone, carried in sorted(by_zone.items()):
        if carried > most + slack(load):
            yield Violation("zone_share", f"{work_class} in {zone}", f"at most {most} units/s", f"{carried}")


def _unmet_load(case: Case, work_class: str) -> float:
    """Units per second of unserved demand, by the route that asks most of the class."""
    total = 0.0
    for key, rate in case.plan.unmet.items():
        routes = (r for r in case.snapshot.routes if f"{r.app}/{r.request_type}" == key)
        units = (sum(leg.units_per_request for leg in r.legs if leg.work_class == work_class) for r in routes)
        total += rate * max(units, default=0.0)
    return total


def _by_zone(case: Case, work_class: str, *, steady: bool) -> dict[str, float]:
    """Usable units per second of a class by zone; `steady`: without spot instances."""
    found: defaultdict[str, float] = defaultdict(float)
    for planned in case.plan.instances:
        if not (steady and planned.market is Market.SPOT):
            units = planned.units_per_s.get(work_class, 0.0)
            cap = case.snapshot.settings.cap(work_class, planned.template_id, planned.nodes)
            found[planned.zone] += cap * planned.count * units
    return found
