"""Decisions of `policies.slack`, compiled: one call says which request goes to whom."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from control.gateway.slack_rows import SlackRows, blank_rows, slack_rows
from policies import lanes, late_refusal, later_legs, queue_parts, rows, slack
from policies.later_legs import choose_legs
from policies.machine_code import machine_code
from policies.routing_table import RoutedModel

LEAD_S = 0.01
"""How long before a member has begun all that it was given it is bound to the next request: what a message takes, and a
little more."""
_MODULES = (lanes, late_refusal, later_legs, queue_parts, rows, slack)
_SOURCES = [Path(__file__), *(Path(str(module.__file__)) for module in _MODULES)]
F = TypeVar("F", bound=Callable[..., Any])


def _entry(function: F) -> F:
    return machine_code(function, _SOURCES, nogil=False)


@_entry
def join(
    w: SlackRows,
    row: int,
    part: int,
    tokens: float,
    answer: float,
    asked_s: float,
    deadline_s: float,
    behind_s: float,
    is_excused: bool,
) -> float:
    """Put a request into a part of the queue, as a row of `waiting`, so many seconds behind its place; the time that it
    takes all members together."""
    for at in range(len(w.members)):
        w.members[at].is_open = w.states[w.candidates[at].instance].is_open
    own = w.waiting[row]
    own.part = part
    own.tokens = tokens
    own.answer = answer
    own.deadline_s = deadline_s
    slack.join(w.members, 0, len(w.members), w.latency_s, w.waiting, w.queues, row, asked_s, behind_s, is_excused)
    return slack.together_s(w.members, 0, len(w.members), w.busy_s, tokens)


@_entry
def leave(w: SlackRows, row: int) -> None:
    queue_parts.remove(w.waiting, w.queues, row)


@_entry
def missed(w: SlackRows, now_s: float) -> tuple[int, float, float]:
    """Find a request that is to be refused as late: its row, the time of its prompt on the fastest member that is open,
    and infinity; (-1, 0, when to look again) where there is none."""
    for at in range(len(w.members)):
        member, state = w.members[at], w.states[w.candidates[at].instance]
        member.is_open = state.is_open
        member.pace = state.pace
    row = late_refusal.next_missed(w.members, 0, len(w.members), w.latency_s, w.waiting, w.queues, 0, now_s)
    if row < 0:
        return -1, 0.0, late_refusal.next_missed_s(w.queues, 0)
    return row, w.waiting[row].deadline_s - w.waiting[row].latest_s, np.inf


@_entry
def bind(w: SlackRows, now_s: float, is_first: bool) -> tuple[int, int, float]:
    """Take a request out of the queue, and write who gets its legs into `chosen`; its row, its route, and the time of
    its prompt by the table; (-1, -1, 0) where nothing is to be bound. `is_first`: since the last call members may have
    begun what they were given."""
    for at in range(len(w.members)):
        member, state = w.members[at], w.states[w.candidates[at].instance]
        member.is_open = state.is_open
        member.pace = state.pace
        member.has_place = state.has_place and state.room > 0
        member.tokens_free = state.tokens_free
        if state.is_idle:  # it can begin at once, whatever was predicted
            member.free_s, member.end_s = min(member.free_s, now_s), min(member.end_s, now_s)
        if is_first:
            member.step_s = -np.inf
    while True:
        row, found = slack.next_binding(
            w.members, 0, len(w.members), w.latency_s, w.busy_s, w.waiting, w.queues, 0, now_s, LEAD_S
        )
        if row < 0:
            return -1, -1, 0.0
        member, own, candidate = w.members[found], w.waiting[row], w.candidates[found]
        if choose_legs(w.routes, w.legs, w.servers, w.flows, w.flow_zones, w.states, candidate, w.chosen):
            slack.take(member, w.latency_s, w.busy_s, own.tokens, own.deadline_s, now_s)
            queue_parts.remove(w.waiting, w.queues, row)
            return row, candidate.route, slack.seconds(w.latency_s[member.times], own.tokens)
        member.has_place = False  # the rest of its route is full
        member.step_s = -np.inf


@_entry
def next_look_s(w: SlackRows, now_s: float) -> tuple[float, float]:
    """When a member is predicted to have a place next, or the first in the queue goes behind others or becomes late;
    and when the first has to begin."""
    look_s, first_s = slack.next_look_s(w.members, 0, len(w.members), now_s, LEAD_S), np.inf
    for part in range(len(w.queues)):
        head, late = w.queues[part].head, w.queues[part].late_head
        if late >= 0 and w.waiting[late].latest_s >= now_s:
            first_s = min(first_s, w.waiting[late].latest_s)
            look_s = min(look_s, w.waiting[late].latest_s)
        if head >= 0:
            first_s = min(first_s, w.waiting[head].latest_s)
            look_s = min(look_s, max(now_s, w.waiting[head].aside_s))
    return look_s, first_s


def compile_decisions() -> None:
    """Compile, or load, so that no request waits for it; takes seconds where nothing is on disk. Any thread will do."""
    w = slack_rows(RoutedModel(""))._replace(waiting=blank_rows(queue_parts.Waiting, 1))
    join(w, 0, 0, 1.0, 0.0, 0.0, 0.0, 0.0, False)
    missed(w, 0.0)
    next_look_s(w, 0.0)
    bind(w, 0.0, True)
    leave(w, 0)
