"""What the fleet's owner asked for beside the demand."""

from collections import defaultdict
from collections.abc import Iterator

from control.checker.case import Case
from control.checker.service import load_of
from control.checker.violation import Violation, slack
from templates_lib.offer import Market
from templates_lib.plan import PlannedInstance
from templates_lib.settings import Survive


def violations(case: Case) -> Iterator[Violation]:
    rails = case.snapshot.settings.guardrails
    budget = rails.max_usd_per_hour
    if budget is not None and case.plan.usd_per_hour > budget + slack(budget):
        yield Violation("budget", "usd_per_hour", f"at most {budget}", f"{case.plan.usd_per_hour}")
    for work_class, replicas in rails.replicas.items():
        count = sum(i.count for i in case.plan.instances if i.units_per_s.get(work_class, 0.0) > 0)
        highest = replicas.max if replicas.max is not None else count
        if not replicas.min <= count <= highest:
            limit = "any" if replicas.max is None else str(replicas.max)
            yield Violation("replicas", work_class, f"{replicas.min} to {limit} instances", f"{count}")
    served: defaultdict[str, float] = defaultdict(float)
    in_zone: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for (work_class, zone), load in load_of(case).items():
        served[work_class] += load
        in_zone[work_class][zone] = load
    for work_class, load in sorted(served.items()):
        yield from _spot_share(case, work_class, load)
        yield from _zone_share(case, work_class, load, in_zone[work_class])
        yield from _survival(case, work_class, load)


def _capacity(case: Case, work_class: str, planned: PlannedInstance) -> float:
    """Usable units per second of one instance."""
    return case.snapshot.settings.utilisation_cap * planned.units_per_s.get(work_class, 0.0)


def _spot_share(case: Case, work_class: str, load: float) -> Iterator[Violation]:
    share = case.snapshot.settings.guardrails.max_spot_share
    steady = (i for i in case.plan.instances if i.market is not Market.SPOT)
    capacity = sum(i.count * _capacity(case, work_class, i) for i in steady)
    if capacity + slack(load) < (1 - share) * load:
        expected = f"at least {(1 - share) * load} units/s that are not spot"
        yield Violation("spot_share", work_class, expected, f"{capacity}")


def _zone_share(case: Case, work_class: str, load: float, in_zone: dict[str, float]) -> Iterator[Violation]:
    """By flows; in mode `paper`, where flows have no zone, by what the other zones could carry."""
    share = case.snapshot.settings.guardrails.max_zone_share
    if "" in in_zone:
        by_zone: defaultdict[str, float] = defaultdict(float)
        for planned in case.plan.instances:
            by_zone[planned.zone] += planned.count * _capacity(case, work_class, planned)
        in_zone = {zone: load - (sum(by_zone.values()) - capacity) for zone, capacity in by_zone.items()}
    for zone, carried in sorted(in_zone.items()):
        if carried > share * load + slack(load):
            yield Violation("zone_share", f"{work_class} in {zone}", f"at most {share * load} units/s", f"{carried}")


def _survival(case: Case, work_class: str, load: float) -> Iterator[Violation]:
    """What is left without the largest instance, or zone, still covers `survive_share` of what is served."""
    survive = case.snapshot.settings.survive
    if survive is Survive.NOTHING:
        return
    lost: defaultdict[str, float] = defaultdict(float)
    total = 0.0
    for index, planned in enumerate(case.plan.instances):
        capacity = _capacity(case, work_class, planned)
        total += planned.count * capacity
        if survive is Survive.ZONE:
            lost[planned.zone] += planned.count * capacity
        else:
            lost[f"instances[{index}]"] = capacity
    needed = case.snapshot.settings.survive_share * load
    for what, capacity in sorted(lost.items()):
        if total - capacity + slack(load) < needed:
            expected = f"at least {needed} units/s without {what}"
            yield Violation("survive", work_class, expected, f"{total - capacity}")
