"""A model's part of the routing table, what is known of its members, and what waits, in the arrays on which
`policies.slack` and `policies.later_legs` decide."""

from typing import Any, NamedTuple

import numpy as np

from policies.answer_cost import answer_usd
from policies.later_legs import Candidate, Flow, Route, Server
from policies.queue_parts import EMPTY, PARTS, Queue, Waiting
from policies.routing_table import PromptTimes, RoutedModel
from policies.rows import Floats, Ints, Rows, dtype_of
from policies.slack import Member, member_row, table_of_times


class MemberState(NamedTuple):
    """What a member could take now."""

    is_open: bool
    """Requests may be sent to it."""
    has_place: bool
    """It could begin a prompt."""
    is_idle: bool
    """It has begun all prompts that it was sent."""
    held: int
    room: int
    """As in `policies.later_legs`."""
    pace: float
    """As in `policies.slack.Member`."""
    kv_most: float
    """As `room`."""
    tokens_free: float
    """As in `policies.slack.Member`."""


class ServedLeg:
    """A leg of a route: see `policies.later_legs.Leg`."""

    server_at: int
    servers: int


class SlackRows(NamedTuple):
    """Plain arrays of records: to call a compiled function takes several times as long with `recarray`. A member that
    serves the first leg of several routes has a row in `members` for each."""

    states: Rows[MemberState]
    """In the order of the routing table; all are closed."""
    members: Rows[Member]
    candidates: Rows[Candidate]
    routes: Rows[Route]
    legs: Rows[ServedLeg]
    servers: Rows[Server]
    flows: Rows[Flow]
    flow_zones: Ints
    latency_s: Floats
    busy_s: Floats
    chosen: Ints
    """(most legs of a route,) where a decision writes rows of `states`."""
    waiting: Rows[Waiting]
    queues: Rows[Queue]
    """(PARTS,)"""


def slack_rows(model: RoutedModel) -> SlackRows:
    """Nothing waits, and there is no row for what does."""
    zones = {zone: number for number, zone in enumerate(sorted({member.zone for member in model.members}))}
    times: dict[PromptTimes, int] = {}
    members, candidates, routes, legs, servers, flows = (list[tuple[float, ...]]() for _ in range(6))
    usd = answer_usd(model)
    most_legs = max((len(route.legs) for route in model.routes), default=1)
    flow_zones: list[list[int]] = []
    for number, route in enumerate(model.routes):
        routes.append((len(legs), len(route.legs), len(flows), len(route.flows)))
        for place, leg in enumerate(route.legs):
            able = [(n, m) for n, m in enumerate(model.members) if leg.work_class in m.units_per_s]
            legs.append((len(servers), len(able)))
            servers += [(n, zones[m.zone], m.units_per_s[leg.work_class]) for n, m in able]
            for n, m in able if place == 0 else ():
                members.append(member_row(m.times, times, m.usd_per_hour, np.inf, usd.get((m.id, route.id), 0.0)))
                candidates.append((n, number, zones[m.zone]))
        for flow in route.flows:
            flows.append((flow.requests_per_s, 0.0))
            # A zone where no member is: its flow falls back on the others, as one whose zone is full.
            known = [zones.get(zone, -2) for zone in flow.zones]
            flow_zones.append(known + [-1] * (most_legs - len(known)))
    return SlackRows(
        blank_rows(MemberState, len(model.members)),
        _table(Member, members),
        _table(Candidate, candidates),
        _table(Route, routes),
        _table(ServedLeg, legs),
        _table(Server, servers),
        _table(Flow, flows),
        np.array(flow_zones, np.int64).reshape(-1, most_legs),
        *table_of_times(times),
        np.zeros(most_legs, np.int64),
        blank_rows(Waiting, 0),
        _queues(model),
    )


def _queues(model: RoutedModel) -> Any:
    queues = blank_rows(Queue, PARTS)
    refuses_late = model.objective is not None and model.objective.refuses_late
    for name, value in (EMPTY | {"refuses_late": refuses_late}).items():
        queues[name] = value
    return queues


def blank_rows(record: type[Any], count: int) -> Any:
    return np.zeros(count, dtype_of(record))


def _table(record: type[Any], rows: list[tuple[float, ...]]) -> Any:
    return np.array(rows, dtype_of(record))
