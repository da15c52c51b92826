"""Decisions of `policies.slack`, compiled: one call says which request goes to whom."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from control.gateway.slack_rows import MemberState, Records, SlackRows, slack_table
from policies import later_legs, rows, slack
from policies.later_legs import Candidate, Flow, Leg, Route, Server, choose_legs
from policies.machine_code import machine_code
from policies.routing_table import RoutedModel
from policies.rows import Floats, Ints, Rows, dtype_of

LEAD_S = 0.01
"""How long before a member has begun all that it was given it is bound to the next request: what a message takes, and a
little more."""
_SOURCES = [Path(str(name)) for name in (__file__, later_legs.__file__, rows.__file__, slack.__file__)]


class Decisions:
    """Compiled functions. The arrays of `SlackRows` come first, then `waiting` and `queue` of `policies.slack`, the
    latter of one row."""

    def __init__(self) -> None:
        """Compile, or load; takes seconds where nothing is on disk. Any thread will do."""
        self.join: Callable[..., float] = machine_code(_join, _SOURCES)
        self.leave: Callable[..., None] = machine_code(_leave, _SOURCES)
        self.bind: Callable[..., tuple[int, int]] = machine_code(_bind, _SOURCES)
        self.next_look_s: Callable[..., float] = machine_code(_next_look_s, _SOURCES)
        self._compile()

    def _compile(self) -> None:
        table, waiting, queue = slack_table(RoutedModel("")).rows, new_waiting(1), new_queue()
        known = table.states, table.members, table.candidates, table.latency_s, table.busy_s
        self.join(*known, waiting, queue, 0, 1.0, 0.0, 0.0, 0.0)
        self.next_look_s(table.members, waiting, queue, 0.0)
        self.bind(*arrays(table), waiting, queue, 0.0, True)
        self.leave(waiting, queue, 0)


@lru_cache(maxsize=1)
def decisions() -> Decisions:
    """Return the ones of this process."""
    return Decisions()


def arrays(table: SlackRows) -> tuple[Any, ...]:
    """Take the arrays in the order in which decisions take them."""
    return tuple(getattr(table, name) for name in table.__slots__)


def new_waiting(count: int) -> Records:
    return np.zeros(count, dtype_of(slack.Waiting))


def new_queue() -> Records:
    return np.array([(-1, -1, -1, -1)], dtype_of(slack.Queue))


def _join(
    states: Rows[MemberState],
    members: Rows[slack.Member],
    candidates: Rows[Candidate],
    latency_s: Floats,
    busy_s: Floats,
    waiting: Rows[slack.Waiting],
    queue: Rows[slack.Queue],
    row: int,
    tokens: float,
    asked_s: float,
    deadline_s: float,
    behind_s: float,
) -> float:
    """Put a request into the queue, as a row of `waiting`, so many seconds behind its place; the time that it takes all
    members together."""
    for at in range(len(members)):
        members[at].is_open = states[candidates[at].instance].is_open
    own_s = slack.fastest_s(members, 0, len(members), latency_s, tokens)
    waiting[row].tokens = tokens
    waiting[row].deadline_s = deadline_s
    waiting[row].latest_s = deadline_s - (own_s if own_s < np.inf else 0.0)
    # Without an objective none is later than another.
    waiting[row].order_s = (asked_s if deadline_s == np.inf else waiting[row].latest_s) + behind_s
    slack.insert(waiting, queue[0], row)
    return slack.together_s(members, 0, len(members), busy_s, tokens)


def _leave(waiting: Rows[slack.Waiting], queue: Rows[slack.Queue], row: int) -> None:
    slack.remove(waiting, queue[0], row)


def _bind(
    states: Rows[MemberState],
    members: Rows[slack.Member],
    candidates: Rows[Candidate],
    routes: Rows[Route],
    legs: Rows[Leg],
    servers: Rows[Server],
    flows: Rows[Flow],
    flow_zones: Ints,
    latency_s: Floats,
    busy_s: Floats,
    chosen: Ints,
    waiting: Rows[slack.Waiting],
    queue: Rows[slack.Queue],
    now_s: float,
    is_first: bool,
) -> tuple[int, int]:
    """Take a request out of the queue, and write who gets its legs into `chosen`; its row, and the row of the member
    that begins it, or (-1, -1). `is_first`: since the last call members may have begun what they were given."""
    for at in range(len(members)):
        member, state = members[at], states[candidates[at].instance]
        member.is_open = state.is_open
        member.pace = state.pace
        member.has_place = state.has_place and state.room > 0
        if state.is_idle:  # it can begin at once, whatever was predicted
            member.free_s = min(member.free_s, now_s)
        if is_first:
            member.step_s = -np.inf
    while True:
        row, found = slack.next_binding(members, 0, len(members), latency_s, busy_s, waiting, queue[0], now_s, LEAD_S)
        if row < 0:
            return -1, -1
        if choose_legs(routes, legs, servers, flows, flow_zones, states, candidates[found], chosen):
            slack.take(members[found], busy_s, waiting[row].tokens, waiting[row].deadline_s, now_s)
            slack.remove(waiting, queue[0], row)
            return row, found
        members[found].has_place = False  # the rest of its route is full
        members[found].step_s = -np.inf


def _next_look_s(
    members: Rows[slack.Member], waiting: Rows[slack.Waiting], queue: Rows[slack.Queue], now_s: float
) -> float:
    """When a member is predicted to have a place next, or what is first in the queue becomes late."""
    look_s = slack.next_look_s(members, 0, len(members), now_s, LEAD_S)
    head = queue[0].head
    return look_s if head < 0 else min(look_s, max(now_s, waiting[head].latest_s))
