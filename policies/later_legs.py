"""Choice of instances for the legs of a request behind the first, which `policies.slack` binds.

The plan's flows from the zone of the first leg are quotas: the one that is furthest behind its due is next. In its zone
the instance with the least load for its capacity takes the leg, of those whose KV cache has room for one more of the
size of what it has; where none has, of all. The functions work on records in arrays, as in `slack`.
"""

from typing import Protocol

import numpy as np
from numba.extending import register_jitable

from policies.rows import Ints, Rows


class Route:
    leg_at: int
    """First row in the table of legs."""
    legs: int
    flow_at: int
    """First row in the table of flows."""
    flows: int


class Leg(Protocol):
    server_at: int
    """First row in the table of servers."""
    servers: int


class Server:
    """An instance that can take a leg of a route."""

    instance: int
    zone: int
    weight: float
    """Its capacity for the leg; 0: the routing table that holds now does not have it, or it cannot be used."""


class Candidate:
    """What a row of `slack.Member` stands for: an instance that can take the first leg of a route."""

    instance: int
    route: int
    zone: int


class Flow:
    """A flow of the plan. Its zones are a row of `flow_zones`: (flows, legs)."""

    rate: float
    credit: float
    """Requests by which it is behind its due."""


class Loaded(Protocol):
    """An instance: how many legs it has, and how many more it would take."""

    @property
    def held(self) -> int: ...

    @property
    def room(self) -> int: ...

    @property
    def kv_most(self) -> float:
        """Legs that its KV cache has room for: see `most_in_kv`."""


@register_jitable
def choose_legs(
    routes: Rows[Route],
    legs: Rows[Leg],
    servers: Rows[Server],
    flows: Rows[Flow],
    flow_zones: Ints,
    instances: Rows[Loaded],
    candidate: Candidate,
    chosen: Ints,
) -> bool:
    """Write an instance for every leg of the candidate's route into `chosen`; False where one has no room anywhere."""
    route = routes[candidate.route]
    chosen[0] = candidate.instance
    flow = _next_flow(route, flows, flow_zones, candidate.zone)
    for number in range(1, route.legs):
        leg = legs[route.leg_at + number]
        found = _least_loaded(leg, servers, instances, flow_zones[flow, number] if flow >= 0 else -1)
        if found < 0:  # serving on beats the price of traffic
            found = _least_loaded(leg, servers, instances, -1)
        if found < 0:
            return False
        chosen[number] = found
    if flow >= 0:
        total = _total(route, flows, flow_zones, candidate.zone)
        for at in range(route.flow_at, route.flow_at + route.flows):
            if flow_zones[at, 0] == candidate.zone:
                flows[at].credit += flows[at].rate / total
        flows[flow].credit -= 1.0
    return True


@register_jitable
def _total(route: Route, flows: Rows[Flow], flow_zones: Ints, zone: int) -> float:
    """Requests per second of the route that the plan has from the zone."""
    total = 0.0
    for at in range(route.flow_at, route.flow_at + route.flows):
        if flow_zones[at, 0] == zone:
            total += flows[at].rate
    return total


@register_jitable
def _next_flow(route: Route, flows: Rows[Flow], flow_zones: Ints, zone: int) -> int:
    """The flow of the route from the zone that is furthest behind once each has gained its share of one request; -1:
    the plan has none."""
    total, best, most = _total(route, flows, flow_zones, zone), -1, -np.inf
    for at in range(route.flow_at, route.flow_at + route.flows):
        own = flows[at]
        if flow_zones[at, 0] == zone and own.rate > 0 and own.credit + own.rate / total > most:
            best, most = at, own.credit + own.rate / total
    return best


@register_jitable
def _least_loaded(leg: Leg, servers: Rows[Server], instances: Rows[Loaded], zone: int) -> int:
    """The instance for a leg with the least load for its capacity, in the zone or anywhere (-1), of those whose KV
    cache has room for one more where any has; -1: all are full."""
    best, least, any_fits = -1, np.inf, False
    for at in range(leg.server_at, leg.server_at + leg.servers):
        server = servers[at]
        if server.weight <= 0 or (zone >= 0 and server.zone != zone):
            continue
        own = instances[server.instance]
        load, fits = (own.held + 1) / server.weight, own.held + 1 <= own.kv_most
        if own.room > 0 and ((fits and not any_fits) or (fits == any_fits and load < least)):
            best, least, any_fits = server.instance, load, fits
    return best


@register_jitable
def most_in_kv(running: int, blocks: int, free: int) -> float:
    """Legs that a KV cache of so many blocks holds, as large as the `running` ones are in the mean that have the blocks
    that are not free; infinite where none has any."""
    used = blocks - free
    return running * blocks / used if running > 0 and used > 0 else np.inf
