"""Who may be bound to requests that wait: what the kernel knows of the members of routing tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.kernel import records as r
from control.simulator.serving.kernel.world import World
from policies.answer_cost import answer_usd
from policies.later_legs import Candidate, Flow, Route, Server
from policies.queue_parts import PARTS
from policies.routing import BY_SLACK
from policies.routing_table import PromptTimes, RoutedModel, RoutedRoute
from policies.rows import Floats, Ints, Rows, rows_of, table_of
from policies.slack import Member, member_row, table_of_times


@dataclass(frozen=True, slots=True, eq=False)
class LateBindingRows:
    """The fields of `World` of the same names, for all that any table has; nothing of it is open yet."""

    routes: Rows[Route]
    route_legs: Rows[r.RouteLeg]
    servers: Rows[Server]
    flows: Rows[Flow]
    flow_zones: Ints
    members: Rows[Member]
    candidates: Rows[Candidate]
    latency_s: Floats
    busy_s: Floats
    spans: tuple[tuple[int, int], ...]
    """By app: first of its rows in `members`, and how many they are."""


def late_binding_rows(
    fleet: FleetTimeline,
    apps: tuple[str, ...],
    routes: Sequence[RoutedRoute],
    route_legs: Rows[r.RouteLeg],
    most_legs: int,
) -> LateBindingRows:
    """`route_legs`: without who serves them; that is filled in."""
    index = {life.id: number for number, life in enumerate(fleet.instances)}
    numbers = {route: number for number, route in enumerate(routes)}
    zones = zone_numbers(fleet)
    served: list[list[dict[int, int]]] = [[{} for _ in route.legs] for route in routes]  # instance -> zone
    named: list[dict[tuple[int, ...], None]] = [{} for _ in routes]
    times: dict[PromptTimes, int] = {}
    firsts: list[dict[tuple[int, int], tuple[PromptTimes | None, float]]] = [{} for _ in apps]
    for model in (model for _, models in fleet.tables for model in models if model.id in apps):
        app = apps.index(model.id)
        for route in model.routes:
            number = numbers[replace(route, flows=())]
            named[number] |= {tuple(zones[zone] for zone in flow.zones): None for flow in route.flows}
            for place, leg in enumerate(route.legs):
                for member in (each for each in model.members if leg.work_class in each.units_per_s):
                    served[number][place][index[member.id]] = zones[member.zone]
                    if place == 0:
                        firsts[app][index[member.id], number] = member.times, member.usd_per_hour
    spans, at = [], 0
    members: list[tuple[float, ...]] = []
    candidates: list[tuple[int, ...]] = []
    for own in firsts:
        for (instance, number), (of, usd_per_hour) in own.items():
            members.append(member_row(of, times, usd_per_hour, 0.0))
            candidates.append((instance, number, served[number][0][instance]))
        spans.append((at, len(own)))
        at += len(own)
    servers: list[tuple[float, ...]] = []
    legs = iter(range(len(route_legs)))
    for of_route in served:
        for of_leg in of_route:
            row = route_legs[next(legs)]
            row.server_at, row.servers = len(servers), len(of_leg)
            servers += [(instance, zone, 0.0) for instance, zone in of_leg.items()]
    flows = [key for own in named for key in own]
    flow_at = np.cumsum([0, *(len(own) for own in named)])
    leg_at = np.cumsum([0, *(len(route.legs) for route in routes)])
    padded = [(*key, *(-1 for _ in range(most_legs - len(key)))) for key in flows]
    return LateBindingRows(
        table_of(Route, [
            (leg_at[n], len(route.legs), flow_at[n], len(named[n])) for n, route in enumerate(routes)
        ]),
        route_legs,
        table_of(Server, servers),
        rows_of(Flow, len(flows)),
        np.array(padded, np.int64).reshape(-1, most_legs),
        table_of(Member, members),
        table_of(Candidate, candidates),
        *table_of_times(times),
        tuple(spans),
    )  # fmt: skip


def zone_numbers(fleet: FleetTimeline) -> dict[str, int]:
    """Zones that any table names, numbered."""
    models = [model for _, table in fleet.tables for model in table]
    names = {member.zone for model in models for member in model.members}
    names |= {zone for model in models for route in model.routes for flow in route.flows for zone in flow.zones}
    return {zone: number for number, zone in enumerate(sorted(names))}


def take_model(
    w: World,
    app: int,
    model: RoutedModel,
    routes: Mapping[str, int],
    index: Mapping[str, int],
    zones: Mapping[str, int],
    unusable: frozenset[str],
) -> None:
    """Have the app's calls be bound by this table, without members that cannot be used. `routes`: route id -> number;
    `index`: instance id -> number."""
    own = w.apps[app]
    own.by_slack = model.policy == BY_SLACK
    if not own.by_slack:
        return
    slo = model.objective
    for part in range(app * PARTS, (app + 1) * PARTS):
        w.queues[part].refuses_late = slo is not None and slo.refuses_late
    own.ttft_s = np.inf if slo is None else slo.ttft_ms / 1e3
    own.ttft_s_per_token = 0.0 if slo is None else slo.ttft_ms_per_1k_prompt_tokens / 1e6
    usable = {index[member.id]: member for member in model.members if member.id not in unusable}
    there = set(routes.values())
    usd = {(index[member], routes[route]): of for (member, route), of in answer_usd(model).items()}
    for at in range(own.member_at, own.member_at + own.members):
        candidate = w.candidates[at]
        w.members[at].is_open = candidate.instance in usable and candidate.route in there
        w.members[at].answer_usd = usd.get((candidate.instance, candidate.route), 0.0)
    for route in model.routes:
        row = w.routes[routes[route.id]]
        for place, leg in enumerate(route.legs):
            of_leg = w.route_legs[row.leg_at + place]
            for at in range(of_leg.server_at, of_leg.server_at + of_leg.servers):
                member = usable.get(w.servers[at].instance)
                w.servers[at].weight = 0.0 if member is None else member.units_per_s.get(leg.work_class, 0.0)
        rates = {tuple(zones[zone] for zone in flow.zones): flow.requests_per_s for flow in route.flows}
        for at in range(row.flow_at, row.flow_at + row.flows):
            w.flows[at].rate = rates.get(tuple(w.flow_zones[at, : row.legs].tolist()), 0.0)
