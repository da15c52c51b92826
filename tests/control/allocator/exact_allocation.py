"""The allocation problem once more, written out in full as one mixed-integer program and solved by SciPy.

Shares nothing with the planner but the values it reads: rows are dictionaries over named variables.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from msgspec import UNSET
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_array

from templates_lib.values.offer import Market
from templates_lib.values.settings import Mode, Survive
from tests.control.allocator.allocation_cases import Shape, World, name_of

Row = dict[object, float]
GONE = {"draining", "terminating", "terminated", "failed"}
_SOLVE_ERROR = 4
"""SciPy's status of a program for which HiGHS found neither a solution nor that there is none."""


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
        solved = partial(
            milp,
            c,
            constraints=LinearConstraint(matrix.tocsr(), [r[1] for r in self.rows], [r[2] for r in self.rows]),
            integrality=np.array([n in self.whole for n in names], dtype=int),
            bounds=Bounds(np.zeros(len(names)), np.array([self.upper[n] for n in names])),
        )
        result = solved(options={"mip_rel_gap": 1e-7})
        if result.status == _SOLVE_ERROR:  # HiGHS gives up where its presolve has gone wrong
            result = solved(options={"mip_rel_gap": 1e-7, "presolve": False})
        if result.x is None:
            return None
        return float(result.fun), dict(zip(names, result.x, strict=True))


def _add(row: Row, name: object, value: float) -> None:
    row[name] = row.get(name, 0.0) + value


class Program:
    """The rows of one world's problem, what is rented and runs first: later rows speak of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.guard = world.settings.guardrails
        self.cap = world.settings.utilisation_cap
        self.paper = world.settings.mode is Mode.PAPER
        self.model, self.cost = Model(), defaultdict(float)
        self.zones = sorted({o.zone_id for o in world.offers})
        self.live: list[tuple[int, tuple[str, Market]]] = []
        """Templates that can be rented, by number, and where."""
        self.ways: list[tuple] = []
        """Demand, its route, the place of each leg, and what the traffic of a request costs."""
        self._add_offers()
        self._add_instances()
        self._find_ways()
        self.everyone = {d.key for d in world.demand}
        self.add_flows(None, None, set(), 1.0, self.everyone)

    def _add_offers(self) -> None:
        self.running = [i for i in self.world.instances if i.state not in GONE]
        held = defaultdict(int)
        for instance in self.running:
            for node in instance.nodes:
                held[node.offer] += 1
        bound = {
            o.key: held[o.key] + (self.guard.max_unproven_nodes if o.available_count is None else o.available_count)
            for o in self.world.offers
        }
        self.offers = {o.key: o for o in self.world.offers if bound[o.key] > 0}
        self.groups = sorted({(o.zone_id, o.market) for o in self.offers.values()})
        for key, o in self.offers.items():
            self.cost[self.model.var(("x", key), bound[key], whole=True)] += o.usd_per_hour
        for pool in self.world.pools:
            self.model.row({("x", k): w for k, w in pool.members.items() if k in self.offers}, -math.inf, pool.limit)

    def _add_instances(self) -> None:
        """Instances, their points, their nodes."""
        use: dict[tuple[str, tuple[str, Market]], Row] = defaultdict(dict)
        for t, shape in enumerate(self.world.shapes):
            for g in self.groups if self._may_be(shape) else ():
                cheapest = {
                    c: min((o for o in self._offers_of(c, g)), key=lambda o: (o.usd_per_hour, o.key), default=None)
                    for c in shape.nodes
                }
                if None in cheapest.values():
                    continue
                self._add_template(t, g, cheapest)
                for c, count in shape.nodes.items():
                    _add(use[c, g], ("n", t, g), count)
        for (c, g), row in use.items():
            self.model.row({**row, **{("x", o.key): -1.0 for o in self._offers_of(c, g)}}, 0.0, 0.0)

    def _add_template(self, t: int, g: tuple[str, Market], cheapest: dict) -> None:
        settings, shape = self.world.settings, self.world.shapes[t]
        disks = self._disks(t)
        rent = sum(n * cheapest[c].usd_per_hour for c, n in shape.nodes.items()) + disks
        often = sum(n * cheapest[c].interruptions_per_hour for c, n in shape.nodes.items())
        self.live.append((t, g))
        n = self.model.var(("n", t, g), 1000, whole=True)
        self.cost[n] += disks
        if g[1] is Market.SPOT:
            self.cost[n] += rent * often * settings.restart_hours
        runs = sum(1 for i in self.running if i.template_id == name_of(t) and (i.zone, i.market) == g)
        fresh = self.model.var(("new", t, g))
        self.model.row({fresh: 1.0, n: -1.0}, -runs, math.inf)
        installs = settings.install_minutes
        more = installs.get(shape.engine, 0.0) if shape.engine else max(installs.values(), default=0.0)
        self.cost[fresh] += (settings.startup_minutes + more) / settings.adjustment_interval_minutes * rent
        points = {self.model.var(("y", t, p, g)): 1.0 for p in range(len(shape.points))}
        self.model.row({**points, n: -1.0}, 0.0, 0.0)

    def _find_ways(self) -> None:
        price = {(t.source, t.target): t.usd_per_gb for t in self.world.traffic}
        for d in self.world.demand:
            self.model.var(("unmet", d.key), d.requests_per_s)
            for r in self._routes_of(d):
                for chosen in itertools.product([None] if self.paper else self.zones, repeat=len(r.legs)):
                    ends = ((chosen[e.source], chosen[e.target], e) for e in r.edges)
                    crossing = [(a, b, e) for a, b, e in ends if a != b]
                    if all((a, b) in price for a, b, _ in crossing):
                        usd = sum(price[a, b] * e.bytes_per_request * 3600 / 1e9 for a, b, e in crossing)
                        self.ways.append((d, r, chosen, usd))

    def add_flows(
        self, tag: object, lost_zone: str | None, lost: set[tuple[str, object]], keep: float, only: set[str]
    ) -> None:
        """Flows that serve a share `keep` of the demand `only`, and what each place has room for: without `lost_zone`,
        and in the places of `lost` without what is lost there. `tag`: None for those of every day, which cost."""
        into: dict[tuple[str, object], Row] = defaultdict(dict)
        served: dict[str, Row] = {d.key: {("unmet", d.key): keep} for d in self.world.demand if d.key in only}
        for d, r, chosen, usd in self.ways:
            if d.key not in only or (not self.paper and lost_zone in chosen):
                continue
            f = self.model.var(("f", tag, d.key, r.id, chosen))
            served[d.key][f] = 1.0
            if tag is None:
                self.cost[f] += usd
            for leg, where in zip(r.legs, chosen, strict=True):
                _add(into[leg.work_class, where], f, -leg.units_per_request)
        for d in self.world.demand:
            if d.key in only:
                wanted = keep * d.requests_per_s
                self.model.row(served[d.key], wanted, wanted if tag is None else math.inf)
        for (k, where), row in into.items():
            room = self._room(k, lambda g, where=where: (self.paper or g[0] == where) and g[0] != lost_zone)
            minus = {("loss", k, where): -1.0} if (k, where) in lost else {}
            self.model.row({**room, **row, **minus}, 0.0, math.inf)

    def add_budget(self) -> None:
        if self.guard.max_usd_per_hour is not None:
            row = {("x", k): o.usd_per_hour for k, o in self.offers.items()}
            row |= {("n", t, g): self._disks(t) for t, g in self.live}
            for d, r, chosen, usd in self.ways:
                _add(row, ("f", None, d.key, r.id, chosen), usd)
            self.model.row(row, -math.inf, self.guard.max_usd_per_hour)

    def add_shares(self) -> None:
        """Of each work class, what spot instances and a single zone may serve."""
        for k in sorted({k for s in self.world.shapes for p in s.points for k in p}):
            load: Row = {}
            for d, r, chosen, _ in self.ways:
                units = _units(r, k)
                if units:
                    load["f", None, d.key, r.id, chosen] = units
            if load and self.guard.max_spot_share < 1 and any(market is Market.SPOT for _, market in self.groups):
                steady = self._room(k, lambda g: g[1] is not Market.SPOT)
                rest = {f: -(1 - self.guard.max_spot_share) * u for f, u in load.items()}
                self.model.row({**rest, **steady}, 0.0, math.inf)
            if load and self.guard.max_zone_share < 1:
                self._add_zone_share(k, load)

    def _add_zone_share(self, k: str, load: Row) -> None:
        """What is unmet counts as served anywhere. In mode `paper`, where no flow has a zone, what zones could serve
        has to cover the load."""
        share, most = {f: -self.guard.max_zone_share * u for f, u in load.items()}, 0.0
        for d in self.world.demand:
            units = max((_units(r, k) for r in self._routes_of(d)), default=0.0)
            share["unmet", d.key] = -self.guard.max_zone_share * units
            most += units * d.requests_per_s
        covers: Row = {f: -u for f, u in load.items()}
        for z in self.zones:
            if self.paper:
                cover = self.model.var(("cover", k, z), most)
                covers[cover] = 1.0
                self.model.row({cover: -1.0, **self._room(k, lambda g, z=z: g[0] == z)}, 0.0, math.inf)
                self.model.row({**share, cover: 1.0}, -math.inf, 0.0)
                continue
            row = dict(share)
            for d, r, chosen, _ in self.ways:
                for leg, where in zip(r.legs, chosen, strict=True):
                    if leg.work_class == k and where == z:
                        _add(row, ("f", None, d.key, r.id, chosen), leg.units_per_request)
            self.model.row(row, -math.inf, 0.0)
        if self.paper:
            self.model.row(covers, 0.0, math.inf)

    def add_replicas(self) -> Row:
        """How many instances are missing, over all classes."""
        short: Row = {}
        for k, bounds in self.guard.replicas.items():
            row = {("n", t, g): 1.0 for t, g in self.live if any(k in p for p in self.world.shapes[t].points)}
            missing = self.model.var(("short", k), bounds.min)
            short[missing] = 1.0
            self.model.row({**row, missing: 1.0}, bounds.min, math.inf)
            self.model.row(row, 0.0, math.inf if bounds.max is None else bounds.max)
        return short

    def add_losses(self) -> None:
        settings = self.world.settings
        if settings.survive is Survive.ZONE:
            for z in self.zones:
                self.add_flows(("lost", z), z, set(), settings.survive_share, self.everyone)
        if settings.survive is Survive.INSTANCE:
            self._add_instance_losses()

    def _add_instance_losses(self) -> None:
        """In every place, the largest instance of each class that can be lost together is gone."""
        for t, g in self.live:
            used = self.model.var(("used", t, g), 1, whole=True)
            self.model.row({("n", t, g): -1.0, used: 1000.0}, 0.0, math.inf)
        for group in _lost_together(self.world):
            demands = {d.key for d, r, _, _ in self.ways if any(leg.work_class in group for leg in r.legs)}
            legs = ((leg, place) for _, r, chosen, _ in self.ways for leg, place in zip(r.legs, chosen, strict=True))
            for place in {place for leg, place in legs if leg.work_class in group}:
                for k in group:
                    self._add_loss(k, place)
                tag, lost = ("gone", tuple(sorted(group)), place), {(k, place) for k in group}
                self.add_flows(tag, None, lost, self.world.settings.survive_share, demands)

    def _add_loss(self, k: str, place: object) -> None:
        loss = self.model.var(("loss", k, place))
        for t, g in self.live:
            if self.paper or g[0] == place:
                most = max((p.get(k, 0.0) for p in self.world.shapes[t].points), default=0.0)
                self.model.row({loss: 1.0, ("used", t, g): -self.cap * most}, 0.0, math.inf)

    def minimise(self, short: Row) -> Exact:
        """Unmet demand by priority, then `short`, then cost; none at the expense of one before."""
        priorities = sorted({d.priority for d in self.world.demand}, reverse=True)
        levels: list[Row] = [
            {("unmet", d.key): 1.0 for d in self.world.demand if d.priority == priority} for priority in priorities
        ]
        values = []
        for level in filter(None, (*levels, short)):
            best = self.model.minimise(level)
            assert best is not None
            value = 0.0 if best[0] < 1e-7 else best[0]
            values.append(value)
            self.model.row(level, 0.0, value + 1e-5)
        best = self.model.minimise(dict(self.cost))
        assert best is not None
        return Exact(best[0], values)

    def _disks(self, t: int) -> float:
        """$/h of those of an instance, all nodes of which hold all that it serves."""
        shape, disks = self.world.shapes[t], self.world.disks
        held = sorted({k.split("/")[0] for p in shape.points for k in p})
        name, per_month = "+".join(held), disks.usd_per_gib_month.get("x", 0.0)
        gib = disks.gib.get(f"{name}@{shape.engine}", disks.gib.get(name, 0))
        return sum(shape.nodes.values()) * gib * per_month / 730

    def _may_be(self, shape: Shape) -> bool:
        """Tell whether the only cloud there is starts the engine, for all that the template serves."""
        barred = {} if self.world.barred is UNSET else self.world.barred
        held = {k.split("/")[0] for p in shape.points for k in p}
        return not any("x" in barred.get(m, {}).get(shape.engine, ()) for m in held)

    def _offers_of(self, config: str, g: tuple[str, Market]) -> list:
        return [o for o in self.offers.values() if o.node_config == config and (o.zone_id, o.market) == g]

    def _routes_of(self, demand) -> list:
        return [r for r in self.world.routes if (r.app, r.request_type) == (demand.app, demand.request_type)]

    def _room(self, k: str, counts: Callable[[tuple[str, Market]], bool]) -> Row:
        """What instances in places that count may serve of a work class."""
        row: Row = {}
        for t, g in self.live:
            for p, point in enumerate(self.world.shapes[t].points):
                if k in point and counts(g):
                    row["y", t, p, g] = self.cap * point[k]
        return row


def exact_optimum(world: World) -> Exact:
    program = Program(world)
    program.add_budget()
    program.add_shares()
    short = program.add_replicas()
    program.add_losses()
    return program.minimise(short)


def _units(route, k: str) -> float:
    """Of a work class, for one request."""
    return sum(leg.units_per_request for leg in route.legs if leg.work_class == k)


def _lost_together(world: World) -> set[frozenset[str]]:
    """Work classes that one instance may serve, over all templates."""
    linked = {k: {k} for k in {leg.work_class for r in world.routes for leg in r.legs}}
    for shape in world.shapes:
        for point in shape.points:
            together = set().union(*(linked[k] for k in point if k in linked))
            for k in together:
                linked[k] = together
    return {frozenset(v) for v in linked.values()}
