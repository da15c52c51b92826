"""Prices, rent, initialisation, spot risk, the objective and its proof."""

from collections.abc import Iterator

from control.checker.case import Case
from control.checker.violation import Violation, same, slack
from templates_lib.values.offer import Market
from templates_lib.values.plan import PlannedInstance


def violations(case: Case) -> Iterator[Violation]:
    yield from _prices(case)
    yield from _totals(case)
    yield from _instance_rents(case)
    yield from _disk_sizes(case)
    yield from _between("init_usd", case.plan.init_usd, *_init_usd(case))
    yield from _between("spot_risk_usd_per_hour", case.plan.spot_risk_usd_per_hour, *_spot_risk(case))
    yield from _proof(case)


def _prices(case: Case) -> Iterator[Violation]:
    for planned in case.plan.offers:
        offer = case.offers.get(planned.offer)
        if offer is not None and not same(planned.usd_per_hour, offer.usd_per_hour):
            where = f"offers[{planned.offer}].usd_per_hour"
            yield Violation("price", where, f"{offer.usd_per_hour}", f"{planned.usd_per_hour}")


def _totals(case: Case) -> Iterator[Violation]:
    plan = case.plan
    rent = sum(p.nodes * case.offers[p.offer].usd_per_hour for p in plan.offers if p.offer in case.offers)
    disks = sum(each.count * _disks(case, each) for each in plan.instances)
    sums = (
        ("rent", "rent_usd_per_hour", "Σ nodes · price of the offers", rent, plan.rent_usd_per_hour),
        ("disks", "disks_usd_per_hour", "Σ nodes · disk · price of the cloud", disks, plan.disks_usd_per_hour),
        (
            "rent",
            "Σ instances[].usd_per_hour",
            "rent + disks",
            rent + disks,
            sum(i.usd_per_hour for i in plan.instances),
        ),
        (
            "total",
            "usd_per_hour",
            "rent + disks + traffic",
            plan.rent_usd_per_hour + plan.disks_usd_per_hour + plan.traffic_usd_per_hour,
            plan.usd_per_hour,
        ),
        (
            "objective",
            "objective",
            "usd_per_hour + init_usd + spot_risk_usd_per_hour",
            plan.usd_per_hour + plan.init_usd + plan.spot_risk_usd_per_hour,
            plan.objective,
        ),
    )
    for rule, where, meaning, expected, found in sums:
        if not same(expected, found):
            yield Violation(rule, where, f"{expected} ({meaning})", f"{found}")


def _instance_rents(case: Case) -> Iterator[Violation]:
    """An instance's nodes cost between the cheapest and the dearest offer that the plan draws on for their like, beside
    their disks."""
    for planned in case.plan.instances:
        low = high = planned.count * _disks(case, planned)
        for config, nodes in planned.nodes.items():
            prices = [o.usd_per_hour for o in case.used.get((config, planned.zone, planned.market), ())]
            if not prices:
                break  # Node accounting reports nodes that nobody rents.
            low += planned.count * nodes * min(prices)
            high += planned.count * nodes * max(prices)
        else:
            where = f"instances[{planned.template_id} in {planned.zone}].usd_per_hour"
            yield from _between(where, planned.usd_per_hour, low, high)


def _init_usd(case: Case) -> tuple[float, float]:
    """Σ K · price · new instances (Coral, section 4.3), at the cheapest and the dearest offer of each cell. K follows
    from an instance's engines."""
    low = high = 0.0
    for planned, new in _new_instances(case):
        factor = _startup_minutes(case, planned) / case.snapshot.settings.adjustment_interval_minutes
        low += factor * new * _disks(case, planned)
        high += factor * new * _disks(case, planned)
        for config, nodes in planned.nodes.items():
            cheap, dear = _price_range(case, planned, config)
            low += factor * new * nodes * cheap
            high += factor * new * nodes * dear
    return low, high


def _startup_minutes(case: Case, planned: PlannedInstance) -> float:
    """Return the minutes until an instance serves: where its engines are not known, those of whichever take longest."""
    settings, installed = case.snapshot.settings, case.snapshot.settings.install_minutes
    if not planned.engines:
        return settings.startup_minutes + max(installed.values(), default=0.0)
    return settings.startup_minutes + sum(installed.get(engine, 0.0) for engine in planned.engines.split("+"))


def _spot_risk(case: Case) -> tuple[float, float]:
    """Σ interruptions_per_hour · nodes · restart_hours · instance price over spot instances (docs/plans.md)."""
    low = high = 0.0
    for planned in case.plan.instances:
        if planned.market is not Market.SPOT:
            continue
        price_low = price_high = _disks(case, planned)
        rate_low = rate_high = 0.0
        for config, nodes in planned.nodes.items():
            cheap, dear = _price_range(case, planned, config)
            price_low += nodes * cheap
            price_high += nodes * dear
            sold = case.sold.get((config, planned.zone, planned.market), ())
            rate_low += nodes * min((o.interruptions_per_hour for o in sold), default=0.0)
            rate_high += nodes * max((o.interruptions_per_hour for o in sold), default=0.0)
        low += planned.count * price_low * rate_low
        high += planned.count * price_high * rate_high
    return case.snapshot.settings.restart_hours * low, case.snapshot.settings.restart_hours * high


def _disks(case: Case, planned: PlannedInstance) -> float:
    """$/h of the disks of one instance."""
    per_gib = case.snapshot.charged_disks.usd_per_gib_month.get(planned.zone.split("/")[0], 0.0) / 730
    return sum(planned.nodes.values()) * planned.disk_gib * per_gib


def _disk_sizes(case: Case) -> Iterator[Violation]:
    """Nodes are charged for a disk that holds what they serve at least."""
    for planned in case.plan.instances:
        # A work class begins with its component, whose name may have slashes too.
        served = {name[:at] for name in planned.units_per_s for at, letter in enumerate(name) if letter == "/"}
        by_engines: dict[str, int] = {}
        for name, gib in case.snapshot.charged_disks.gib.items():
            components, _, engines = name.partition("@")
            if {*components.split("+")} <= served:
                by_engines[engines] = max(by_engines.get(engines, 0), gib)
        # Of engines that are not known, or not said, the largest.
        least = by_engines.get(planned.engines, by_engines.get("", 0))
        if planned.disk_gib < least:
            where = f"instances[{planned.template_id} in {planned.zone}].disk_gib"
            yield Violation("disks", where, f"at least {least}", f"{planned.disk_gib}")


def _new_instances(case: Case) -> Iterator[tuple[PlannedInstance, int]]:
    for planned in case.plan.instances:
        running = case.running[planned.template_id, planned.zone, planned.market]
        yield planned, max(planned.count - running, 0)


def _price_range(case: Case, planned: PlannedInstance, config: str) -> tuple[float, float]:
    """Return the lowest and the highest price of a node: where several offers sell a configuration, the plan chooses
    which one an instance gets."""
    prices = [o.usd_per_hour for o in case.sold.get((config, planned.zone, planned.market), ())]
    return min(prices, default=0.0), max(prices, default=0.0)


def _between(where: str, found: float, low: float, high: float) -> Iterator[Violation]:
    if not low - slack(low, found) <= found <= high + slack(high, found):
        wanted = f"{high}" if same(low, high) else f"between {low} and {high}"
        yield Violation("cost", where, wanted, f"{found}")


def _proof(case: Case) -> Iterator[Violation]:
    plan = case.plan
    if plan.bound > plan.objective + slack(plan.objective):
        yield Violation("bound", "bound", f"at most the objective, {plan.objective}", f"{plan.bound}")
    if plan.objective > slack():
        gap = (plan.objective - plan.bound) / plan.objective
        # A solver may cut a gap that rounding made negative off at 0.
        if not same(max(gap, 0.0), plan.gap):
            yield Violation("gap", "gap", f"{gap} ((objective − bound) / objective)", f"{plan.gap}")
    elif abs(plan.gap) > slack() and plan.bound > slack():
        yield Violation("gap", "gap", "0 for an objective of 0", f"{plan.gap}")
    short = any(rate > 0 for rate in plan.unmet.values())
    known = {"optimal", "feasible", "partial"}
    if plan.status not in known or (plan.status == "partial") != short:
        wanted = "partial" if short else "optimal or feasible"
        yield Violation("status", "status", f"{wanted}, by the unmet demand", plan.status)
    target = case.snapshot.settings.limits.gap
    if plan.status == "optimal" and plan.gap > target + slack():
        yield Violation("status", "status", f"a gap of at most {target} when optimal", f"{plan.gap}")
