"""The allocation problem once more, written out in full as one mixed-integer program and solved by SciPy.

Shares nothing with the planner but the values it reads: rows are dictionaries over named variables.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_array

from templates_lib.offer import Market
from templates_lib.settings import Mode, Survive
from tests.control.planner.allocation_cases import World, name_of

Row = dict[object, float]
GONE = {"draining", "terminating", "terminated", "failed"}


@dataclass
class Exact:
    objective: float
    unmet_by_level: list[float]


class Model:
    def __init__(self) -> None:
        self.upper: dict[object, float] = {}
        self.whole: set[object] = set()
        self.rows: list[tuple[Row, float, float]] = []

    def var(self, name: object, upper: float = math.inf, *, whole: bool = False) -> object:
        self.upper[name] = upper
        if whole:
            self.whole.add(name)
        return name

    def row(self, terms: Row, lower: float, upper: float) -> None:
        self.rows.append((dict(terms), lower, upper))

    def minimise(self, cost: Row) -> tuple[float, dict[object, float]] | None:
        names = list(self.upper)
        at = {n: i for i, n in enumerate(names)}
        matrix = lil_array((len(self.rows), len(names)))
        for i, (terms, _, _) in enumerate(self.rows):
            for name, value in terms.items():
                matrix[i, at[name]] += value
        c = np.zeros(len(names))
        for name, value in cost.items():
            c[at[name]] += value
        result = milp(
            c,
            constraints=LinearConstraint(matrix.tocsr(), [r[1] for r in self.rows], [r[2] for r in self.rows]),
            integrality=np.array([n in self.whole for n in names], dtype=int),
            bounds=Bounds(np.zeros(len(names)), np.array([self.upper[n] for n in names])),
            options={"mip_rel_gap": 1e-7},
        )
        if result.x is None:
            return None
        return float(result.fun), dict(zip(names, result.x, strict=True))


def _add(row: Row, name: object, value: float) -> None:
    row[name] = row.get(name, 0.0) + value


def exact_optimum(world: World) -> Exact:  # noqa: PLR0912 - one model, read from top to bottom
    settings = world.settings
    guard = settings.guardrails
    paper = settings.mode is Mode.PAPER
    model, cost = Model(), defaultdict(float)
    running = [i for i in world.instances if i.state not in GONE]
    held = defaultdict(int)
    for instance in running:
        for node in instance.nodes:
            held[node.offer] += 1
    bound = {
        o.key: held[o.key] + (guard.max_unproven_nodes if o.available_count is None else o.available_count)
        for o in world.offers
    }
    offers = {o.key: o for o in world.offers if bound[o.key] > 0}
    groups = sorted({(o.zone_id, o.market) for o in offers.values()})
    zones = sorted({o.zone_id for o in world.offers})
    for key, o in offers.items():
        cost[model.var(("x", key), bound[key], whole=True)] += o.usd_per_hour

    # Instances, their points, their nodes.
    init, live = settings.startup_minutes / settings.adjustment_interval_minutes, []
    use: dict[tuple[str, tuple[str, Market]], Row] = defaultdict(dict)
    for t, shape in enumerate(world.shapes):
        for g in groups:
            cheapest = {
                c: min((o for o in offers.values() if o.node_config == c and (o.zone_id, o.market) == g),
                       key=lambda o: (o.usd_per_hour, o.key), default=None)
                for c in shape.nodes
            }  # fmt: skip
            if None in cheapest.values():
                continue
            rent = sum(n * cheapest[c].usd_per_hour for c, n in shape.nodes.items())
            often = sum(n * cheapest[c].interruptions_per_hour for c, n in shape.nodes.items())
            live.append((t, g))
            n = model.var(("n", t, g), 1000, whole=True)
            if g[1] is Market.SPOT:
                cost[n] += rent * often * settings.restart_hours
            runs = sum(1 for i in running if i.template_id == name_of(t) and (i.zone, i.market) == g)
            fresh = model.var(("new", t, g))
            model.row({fresh: 1.0, n: -1.0}, -runs, math.inf)
            cost[fresh] += init * rent
            points = {model.var(("y", t, p, g)): 1.0 for p in range(len(shape.points))}
            model.row({**points, n: -1.0}, 0.0, 0.0)
            for c, count in shape.nodes.items():
                _add(use[c, g], n, count)
    for (c, g), row in use.items():
        rented = {("x", k): -1.0 for k, o in offers.items() if o.node_config == c and (o.zone_id, o.market) == g}
        model.row({**row, **rented}, 0.0, 0.0)
    for pool in world.pools:
        model.row({("x", k): w for k, w in pool.members.items() if k in offers}, -math.inf, pool.limit)

    def capacity(k: str, where: object, lost_zone: str | None = None) -> Row:
        row: Row = {}
        for t, g in live:
            for p, point in enumerate(world.shapes[t].points):
                if k in point and (paper or g[0] == where) and g[0] != lost_zone:
                    _add(row, ("y", t, p, g), settings.utilisation_cap * point[k])
        return row

    # Demand and its flows.
    price = {(t.source, t.target): t.usd_per_gb for t in world.traffic}
    classes = sorted({k for s in world.shapes for p in s.points for k in p})
    places = [None] if paper else zones
    ways = []
    for d in world.demand:
        model.var(("unmet", d.key), d.requests_per_s)
        for r in world.routes:
            if (r.app, r.request_type) != (d.app, d.request_type):
                continue
            for chosen in itertools.product(places, repeat=len(r.legs)):
                crossing = [
                    (chosen[e.source], chosen[e.target], e) for e in r.edges if chosen[e.source] != chosen[e.target]
                ]
                if all((a, b) in price for a, b, _ in crossing):
                    usd = sum(price[a, b] * e.bytes_per_request * 3600 / 1e9 for a, b, e in crossing)
                    ways.append((d, r, chosen, usd))

    def flow_rows(
        tag: object, lost_zone: str | None, lost: set[tuple[str, object]], keep: float, only: set[str]
    ) -> None:
        into: dict[tuple[str, object], Row] = defaultdict(dict)
        served: dict[str, Row] = {d.key: {("unmet", d.key): keep} for d in world.demand if d.key in only}
        for d, r, chosen, usd in ways:
            if d.key not in only or (not paper and lost_zone in chosen):
                continue
            f = model.var(("f", tag, d.key, r.id, chosen))
            served[d.key][f] = 1.0
            if tag is None:
                cost[f] += usd
            for leg, where in zip(r.legs, chosen, strict=True):
                _add(into[leg.work_class, where], f, -leg.units_per_request)
        for d in world.demand:
            if d.key in only:
                model.row(served[d.key], keep * d.requests_per_s, keep * d.requests_per_s if tag is None else math.inf)
        for (k, where), row in into.items():
            minus = {("loss", k, where): -1.0} if (k, where) in lost else {}
            model.row({**capacity(k, where, lost_zone), **row, **minus}, 0.0, math.inf)

    everyone = {d.key for d in world.demand}
    flow_rows(None, None, set(), 1.0, everyone)

    # Guardrails.
    if guard.max_usd_per_hour is not None:
        row = {("x", k): o.usd_per_hour for k, o in offers.items()}
        for d, r, chosen, usd in ways:
            _add(row, ("f", None, d.key, r.id, chosen), usd)
        model.row(row, -math.inf, guard.max_usd_per_hour)
    for k in classes:
        load: Row = {}
        most = 0.0
        for d, r, chosen, _ in ways:
            units = sum(leg.units_per_request for leg in r.legs if leg.work_class == k)
            if units:
                load["f", None, d.key, r.id, chosen] = units
        if not load:
            continue
        if guard.max_spot_share < 1 and any(g[1] is Market.SPOT for g in groups):
            row = {f: -(1 - guard.max_spot_share) * u for f, u in load.items()}
            for t, g in live:
                for p, point in enumerate(world.shapes[t].points):
                    if k in point and g[1] is not Market.SPOT:
                        row["y", t, p, g] = settings.utilisation_cap * point[k]
            model.row(row, 0.0, math.inf)
        if guard.max_zone_share < 1:
            share = {f: -guard.max_zone_share * u for f, u in load.items()}
            for d in world.demand:
                units = [
                    sum(leg.units_per_request for leg in r.legs if leg.work_class == k)
                    for r in world.routes
                    if (r.app, r.request_type) == (d.app, d.request_type)
                ]
                share["unmet", d.key] = -guard.max_zone_share * max(units, default=0.0)
                most += max(units, default=0.0) * d.requests_per_s
            covers: Row = {f: -u for f, u in load.items()}
            for z in zones:
                if paper:
                    cover = model.var(("cover", k, z), most)
                    covers[cover] = 1.0
                    row = {cover: -1.0}
                    for t, g in live:
                        for p, point in enumerate(world.shapes[t].points):
                            if k in point and g[0] == z:
                                row["y", t, p, g] = settings.utilisation_cap * point[k]
                    model.row(row, 0.0, math.inf)
                    model.row({**share, cover: 1.0}, -math.inf, 0.0)
                else:
                    row = dict(share)
                    for d, r, chosen, _ in ways:
                        for leg, where in zip(r.legs, chosen, strict=True):
                            if leg.work_class == k and where == z:
                                _add(row, ("f", None, d.key, r.id, chosen), leg.units_per_request)
                    model.row(row, -math.inf, 0.0)
            if paper:
                model.row(covers, 0.0, math.inf)
    short: Row = {}
    for k, bounds in guard.replicas.items():
        row = {("n", t, g): 1.0 for t, g in live if any(k in p for p in world.shapes[t].points)}
        missing = model.var(("short", k), bounds.min)
        short[missing] = 1.0
        model.row({**row, missing: 1.0}, bounds.min, math.inf)
        model.row(row, 0.0, math.inf if bounds.max is None else bounds.max)

    # Survival.
    if settings.survive is Survive.ZONE:
        for z in zones:
            flow_rows(("lost", z), z, set(), settings.survive_share, everyone)
    if settings.survive is Survive.INSTANCE:
        _instance_losses(world, model, live, ways, flow_rows, paper)

    priorities = sorted({d.priority for d in world.demand}, reverse=True)
    levels: list[Row] = [{("unmet", d.key): 1.0 for d in world.demand if d.priority == p} for p in priorities]
    levels.append(short)
    values = []
    for level in levels:
        if level:
            best = model.minimise(level)
            assert best is not None
            value = 0.0 if best[0] < 1e-7 else best[0]
            values.append(value)
            model.row(level, 0.0, value + 1e-5)
    best = model.minimise(dict(cost))
    assert best is not None
    return Exact(best[0], values)


def _instance_losses(world: World, model: Model, live, ways, flow_rows, paper: bool) -> None:
    """In every place, the largest instance of each class that can be lost together is gone."""
    settings = world.settings
    demanded = {leg.work_class for r in world.routes for leg in r.legs}
    linked = {k: {k} for k in demanded}
    for shape in world.shapes:
        for point in shape.points:
            together = set().union(*(linked[k] for k in point if k in linked))
            for k in together:
                linked[k] = together
    for t, g in live:
        used = model.var(("used", t, g), 1, whole=True)
        model.row({("n", t, g): -1.0, used: 1000.0}, 0.0, math.inf)
    for group in {frozenset(v) for v in linked.values()}:
        demands = {d.key for d, r, _, _ in ways if any(leg.work_class in group for leg in r.legs)}
        where = {
            place
            for _, r, chosen, _ in ways
            for leg, place in zip(r.legs, chosen, strict=True)
            if leg.work_class in group
        }
        for place in where:
            lost = {(k, place) for k in group}
            for k in group:
                loss = model.var(("loss", k, place))
                for t, g in live:
                    if paper or g[0] == place:
                        most = max((p.get(k, 0.0) for p in world.shapes[t].points), default=0.0)
                        model.row({loss: 1.0, ("used", t, g): -settings.utilisation_cap * most}, 0.0, math.inf)
            flow_rows(("gone", tuple(sorted(group)), place), None, lost, settings.survive_share, demands)
