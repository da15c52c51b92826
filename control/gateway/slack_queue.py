"""Requests of one model that wait in the order of their deadlines until a member has a place for them (`slack-v1`).

A look binds what can be bound, a few requests in one turn of the event loop, so that no other model waits for this one.
It is due when a request comes, whenever what is known of a member changes, and at the time for which a place is
predicted.
"""

import asyncio
from collections.abc import Iterable
from math import inf
from typing import Any, NamedTuple, Protocol

from control.gateway.call import Call
from control.gateway.model_entry import ModelEntry
from control.gateway.slack_decision import bind, join, leave, missed, next_look_s
from control.gateway.slack_rows import MemberState, blank_rows, slack_rows
from policies.fair_order import Backlog
from policies.priority import Priority
from policies.queue_parts import Waiting
from policies.routing import ChosenRoute
from policies.routing_table import RoutedInstance
from policies.rows import copied

_MOST_BOUND = 16
"""Requests that one look binds, and that it refuses."""
_ASK_S = 0.1
"""How often members are asked for places: asking holds for a second."""
_TICK_S = 0.001
"""Resolution of the loop's clock: an earlier look would see the same time."""


class _Wait(NamedTuple):
    row: int
    joined_s: float
    work_s: float
    """As the backlog counts it."""


class BindsCalls(Protocol):
    def bind(self, call: Call, chosen: ChosenRoute, predicted_s: float) -> None:
        """Send a call, which waits no more. It may join the queue again at once. `predicted_s`: time of its prompt by
        the table."""

    def ask_for_places(self, members: Iterable[RoutedInstance], slack_s: float, calls: int) -> None:
        """Ask those that have none for us: so many calls wait, and the first must begin within `slack_s`."""

    def refuse_late(self, call: Call, own_s: float, queue_s: float) -> None:
        """End a call, which waits no more: no instance could begin it in time. `own_s`: time of its prompt alone;
        `queue_s`: in which all that waits is computed."""

    def give_up(self, call: Call) -> None:
        """End a call, which waits no more: nothing could take it for too long."""


class SlackQueue:
    """Make it on a running loop, after `compile_decisions`."""

    def __init__(self, model: ModelEntry, owner: BindsCalls, most_wait_s: float) -> None:
        """`most_wait_s`: how long calls wait while no member can take any."""
        self._owner = owner
        self._most_wait_s = most_wait_s
        self._loop = asyncio.get_running_loop()
        self._backlogs = tuple(Backlog() for _ in Priority)
        """By rank."""
        self._waits: dict[Call, _Wait] = {}
        """As they came."""
        self._calls: list[Call | None] = []
        """By row of `waiting`."""
        self._free: list[int] = []
        """Rows of nobody."""
        self._closed_s = inf
        """When the model was first seen without a member that takes requests."""
        self._next: asyncio.Handle | None = None
        self._next_s = inf
        """Of the next look."""
        self._is_looking = False
        self._asked_s = -inf
        self._numbers: dict[str, int] = {}
        """Members by their ids: rows of `states`."""
        self._refuses_late = False
        self._w = slack_rows(model.served.routing)
        self.update(model)

    def __len__(self) -> int:
        return len(self._waits)

    def update(self, model: ModelEntry) -> None:
        """Take a new table. Of members that are new nothing is known until it is noted."""
        waiting = self.take_all()
        self._model, self._table = model, model.served.routing
        self._refuses_late = self._table.objective is not None and self._table.objective.refuses_late
        new = slack_rows(self._table)._replace(waiting=self._w.waiting)
        numbers = {member.id: number for number, member in enumerate(self._table.members)}
        for member in numbers.keys() & self._numbers.keys():
            _set(new.states, numbers[member], self._w.states[self._numbers[member]])
        self._w, self._numbers = new, numbers
        for call in waiting:
            self.join(call)

    def take_all(self) -> list[Call]:
        """Take every call out; nothing is looked for any more until one joins."""
        calls = list(self._waits)
        for call in calls:
            self.leave(call)
        if self._next is not None:
            self._next.cancel()
        self._next, self._next_s = None, inf
        return calls

    def join(self, call: Call) -> None:
        if not self._free:
            self._grow()
        row, now_s, asked, slo = self._free.pop(), self._loop.time(), call.asked, self._table.objective
        tokens, part = len(asked.prompt) + len(call.generated), asked.priority.rank
        behind_s = self._backlogs[part].behind_s(asked.account)
        # The client of a call that goes on elsewhere has tokens, and waits for the next from now on.
        asked_s, due_s = now_s if call.generated else asked.arrived_s, inf
        if slo is not None:
            due_s = asked_s + slo.ttft_ms / 1e3 + slo.ttft_ms_per_1k_prompt_tokens / 1e6 * tokens
        is_excused = call.is_excused or bool(call.generated)
        answer = min(float(asked.max_tokens - len(call.generated)), self._model.served.mean_output_tokens)
        work_s = join(self._w, row, part, float(tokens), answer, asked_s, due_s, behind_s, is_excused)
        self._backlogs[part].add(asked.account, work_s)
        self._calls[row], self._waits[call] = call, _Wait(row, now_s, work_s)
        self._look_at(0.0)

    def leave(self, call: Call) -> None:
        """Take a call out. Of one that is not there: no harm."""
        if call in self._waits:
            leave(self._w, self._waits[call].row)
            self._forget(call)

    def note(self, member: str, state: MemberState) -> None:
        """Learn what a member could take now."""
        if member in self._numbers:
            _set(self._w.states, self._numbers[member], state)
            if self._waits:
                self._look_at(0.0)

    def _look(self) -> None:
        self._next, self._next_s, self._is_looking = None, inf, True
        now_s = self._loop.time()
        look_s = now_s + _TICK_S
        try:
            look_s = self._bind(now_s)
        finally:  # whatever is wrong with one call, the others are looked at
            self._is_looking = False
            if self._waits and look_s < inf:
                self._look_at(look_s)

    def _bind(self, now_s: float) -> float:
        """Refuse what is late where that is to be, then bind what can be bound, up to a number of each; when to look
        again."""
        missed_s = self._refuse_late(now_s)
        if missed_s <= now_s:
            return now_s
        for turn in range(_MOST_BOUND):
            row, number, predicted_s = bind(self._w, now_s, turn == 0)
            if row < 0:
                next_s, first_s = next_look_s(self._w, now_s)
                self._ask(now_s, first_s)
                return max(now_s + _TICK_S, min(next_s, missed_s, self._give_up_late(now_s)))
            route, call = self._table.routes[number], self._calls[row]
            members = [self._table.members[each] for each in self._w.chosen[: len(route.legs)].tolist()]
            if call is not None:
                self._forget(call)
                self._owner.bind(call, ChosenRoute(route, tuple(members)), predicted_s)
        return now_s

    def _refuse_late(self, now_s: float) -> float:
        """Refuse calls that no member can begin in time any more; when the next one is due."""
        if not self._refuses_late:
            return inf
        for _ in range(_MOST_BOUND):
            row, own_s, next_s = missed(self._w, now_s)
            call = self._calls[row] if row >= 0 else None
            if call is None:
                return next_s
            queue_s = sum(backlog.seconds for backlog in self._backlogs[: call.asked.priority.rank + 1])
            self.leave(call)
            self._owner.refuse_late(call, own_s, queue_s)
        return now_s

    def _ask(self, now_s: float, first_s: float) -> None:
        """Ask for places, not too often. `first_s`: when the first call must begin."""
        if self._waits and now_s >= self._asked_s + _ASK_S:
            self._asked_s = now_s
            self._owner.ask_for_places(self._table.members, first_s - now_s, len(self._waits))

    def _give_up_late(self, now_s: float) -> float:
        """Give up calls that have waited too long while no member took any; when the next one is due."""
        if self._model.is_open:
            self._closed_s = inf
            return inf
        self._closed_s = min(self._closed_s, now_s)
        while self._waits:
            call, wait = next(iter(self._waits.items()))
            late_s = max(wait.joined_s, self._closed_s) + self._most_wait_s
            if late_s > now_s:
                return late_s
            self.leave(call)
            self._owner.give_up(call)
        return inf

    def _look_at(self, when_s: float) -> None:
        """Look then, or sooner; within a look what was noted is seen by its next decision."""
        if self._is_looking or when_s >= self._next_s:
            return
        if self._next is not None:
            self._next.cancel()
        is_due = when_s <= self._loop.time()
        self._next_s = when_s
        self._next = self._loop.call_soon(self._look) if is_due else self._loop.call_at(when_s, self._look)

    def _forget(self, call: Call) -> None:
        """Let its row be another call's."""
        wait = self._waits.pop(call)
        call.is_excused = _is_excused(self._w.waiting, wait.row)
        self._calls[wait.row] = None
        self._free.append(wait.row)
        self._backlogs[call.asked.priority.rank].remove(call.asked.account, wait.work_s)

    def _grow(self) -> None:
        count = len(self._calls)
        more = max(64, count)
        self._w = self._w._replace(waiting=copied(self._w.waiting, blank_rows(Waiting, count + more)))
        self._calls += [None] * more
        self._free += range(count, count + more)


def _is_excused(rows: Any, number: int) -> bool:
    return bool(rows[number]["is_excused"])


def _set(rows: Any, number: int, values: Any) -> None:
    rows[number] = values
