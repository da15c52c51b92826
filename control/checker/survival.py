"""Checks that what is left after a loss still serves the promised share: one small linear program per loss."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import highspy
import numpy as np

from control.checker.case import Case
from control.checker.service import Place, usable_capacity
from control.checker.violation import Violation, slack
from templates_lib.values.settings import Mode, Survive
from templates_lib.values.work import Route

Load = dict[Place, float]
"""Units per request of each class in each place."""


def violations(case: Case) -> Iterator[Violation]:
    """Requests may take other routes and zones after the loss; what that traffic costs is not counted."""
    share = case.snapshot.settings.survive_share
    if case.snapshot.settings.survive is Survive.NOTHING or share <= 0:
        return
    served: defaultdict[str, float] = defaultdict(float)
    for flow in case.plan.flows:
        if flow.route in case.routes:
            served[_demand_key(case.routes[flow.route])] += flow.requests_per_s
    ways = tuple(_ways(case))
    for what, left in _losses(case):
        covered = _covered_share(ways, dict(served), left)
        if covered + slack(1.0) < share:
            expected = f"at least {share:.4g} of the served demand without it"
            yield Violation("survive", what, expected, f"{covered:.4g}")


def _losses(case: Case) -> Iterator[tuple[str, Load]]:
    """(what is lost, usable capacity that is left)."""
    if case.snapshot.settings.survive is Survive.ZONE:
        for zone in sorted({i.zone for i in case.plan.instances}):
            yield zone, usable_capacity(case, (i for i in case.plan.instances if i.zone != zone))
        return
    whole = usable_capacity(case, case.plan.instances)
    for lost in case.plan.instances:
        left = dict(whole)
        for place, capacity in usable_capacity(case, (lost,)).items():
            left[place] -= capacity / lost.count
        yield f"an instance of {lost.template_id} in {lost.zone}", left


def _ways(case: Case) -> Iterator[tuple[str, Load]]:
    """(demand key, load of one request) for every route and every choice of zones that traffic prices allow."""
    paper = case.snapshot.settings.mode is Mode.PAPER
    places = [""] if paper else sorted({i.zone for i in case.plan.instances})
    prices = {(t.source, t.target) for t in case.snapshot.traffic}
    have = usable_capacity(case, case.plan.instances).keys()
    for route in case.snapshot.routes:
        choices = [[p for p in places if (leg.work_class, p) in have] for leg in route.legs]
        for zones in product(*choices):
            ends = ((zones[e.source], zones[e.target]) for e in route.edges)
            if all(a == b or (a, b) in prices for a, b in ends):
                load: defaultdict[Place, float] = defaultdict(float)
                for leg, zone in zip(route.legs, zones, strict=True):
                    load[leg.work_class, zone] += leg.units_per_request
                yield _demand_key(route), dict(load)


def _demand_key(route: Route) -> str:
    return f"{route.app}/{route.request_type}"


def _covered_share(ways: tuple[tuple[str, Load], ...], served: dict[str, float], capacity: Load) -> float:
    """Largest s ≤ 1 such that s of every served demand still finds capacity."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    # Variable 0 is s; way i is variable i + 1, in requests per second.
    model.addVar(0.0, 1.0)
    model.changeColCost(0, -1.0)
    demand_rows: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    place_rows: defaultdict[Place, list[tuple[int, float]]] = defaultdict(list)
    for index, (demand, load) in enumerate(ways, start=1):
        model.addVar(0.0, highspy.kHighsInf)
        demand_rows[demand].append((index, 1.0))
        for place, units in load.items():
            place_rows[place].append((index, units))
    for demand, rate in served.items():
        if rate > slack():
            _add_row(model, 0.0, highspy.kHighsInf, [*demand_rows[demand], (0, -rate)])
    for place, entries in place_rows.items():
        _add_row(model, -highspy.kHighsInf, max(capacity.get(place, 0.0), 0.0), entries)
    model.run()
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"the survival program ended as {model.getModelStatus()}; it always has the solution 0")
    return -float(model.getInfo().objective_function_value)


def _add_row(model: highspy.Highs, low: float, high: float, entries: list[tuple[int, float]]) -> None:
    index, value = zip(*entries, strict=True)
    model.addRow(low, high, len(entries), np.array(index, dtype=np.int32), np.array(value))
