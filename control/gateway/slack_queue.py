"""Requests of one model that wait in the order of their slack until a member has a place for them (`slack-v1`).

A look binds what can be bound, a few requests in one turn of the event loop, so that no other model waits for this one.
It is due when a request comes, whenever what is known of a member changes, and at the time for which a place is
predicted.
"""

import asyncio
from collections.abc import Iterable
from math import inf
from typing import Protocol

from control.gateway.call import Call
from control.gateway.model_entry import ModelEntry
from control.gateway.slack_decision import arrays, decisions, new_queue, new_waiting
from control.gateway.slack_rows import slack_table
from policies.fair_order import Backlog
from policies.routing import ChosenRoute
from policies.routing_table import RoutedInstance
from policies.slack import seconds

_MOST_BOUND = 16
"""Requests that one look binds."""
_ASK_S = 0.1
"""How often members are asked for places: asking holds for a second."""
_TICK_S = 0.001
"""Resolution of the loop's clock: an earlier look would see the same time."""


class BindsCalls(Protocol):
    def bind(self, call: Call, chosen: ChosenRoute, predicted_s: float) -> None:
        """Send a call, which waits no more. It may join the queue again at once. `predicted_s`: time of its prompt by
        the table."""

    def ask_for_places(self, members: Iterable[RoutedInstance], slack_s: float, calls: int) -> None:
        """Ask those that have none for us: so many calls wait, and the first must begin within `slack_s`."""

    def give_up(self, call: Call) -> None:
        """End a call, which waits no more: nothing could take it for too long."""


class SlackQueue:
    """Make it on a running loop, once `decisions` has been called."""

    def __init__(self, model: ModelEntry, owner: BindsCalls, most_wait_s: float) -> None:
        """`most_wait_s`: how long calls wait while no member can take any."""
        self._owner = owner
        self._most_wait_s = most_wait_s
        self._loop = asyncio.get_running_loop()
        self._decisions = decisions()
        self._rows: dict[Call, tuple[int, float, float]] = {}
        """Who waits, as they came: row, since when, and its work as the backlog has it."""
        self._backlog = Backlog()
        self._free: list[int] = []
        self._calls: list[Call | None] = []
        """By row."""
        self._waiting, self._queue = new_waiting(0), new_queue()
        self._closed_s = inf
        """When the model was first seen without a member that takes requests."""
        self._next: asyncio.Handle | None = None
        self._next_s = inf
        self._is_looking = False
        self._asked_s = -inf
        self._table = slack_table(model.served.routing)
        self._numbers: dict[str, int] = {}
        """Members by their ids: rows in `states`."""
        self.update(model)

    def __len__(self) -> int:
        return len(self._rows)

    def update(self, model: ModelEntry) -> None:
        """Take a new table. Of members that are new nothing is known until it is noted."""
        waiting = self.take_all()
        table = slack_table(model.served.routing)
        for number, member in enumerate(table.of):
            if member.id in self._numbers:
                table.rows.states[number] = self._table.rows.states[self._numbers[member.id]]
        self._model, self._table = model, table
        self._numbers = {member.id: number for number, member in enumerate(self._table.of)}
        for call in waiting:
            self.join(call)

    def take_all(self) -> list[Call]:
        """Take every call out; nothing is looked for any more until one joins."""
        calls = list(self._rows)
        for call in calls:
            self.leave(call)
        if self._next is not None:
            self._next.cancel()
        self._next, self._next_s = None, inf
        return calls

    def join(self, call: Call) -> None:
        if not self._free:
            self._grow()
        row, now_s, account = self._free.pop(), self._loop.time(), call.asked.account
        table, tokens = self._table.rows, len(call.asked.prompt) + len(call.generated)
        # The client of a call that goes on elsewhere has tokens, and waits for the next from now on.
        asked_s = now_s if call.generated else call.asked.arrived_s
        deadline_s, slo = inf, self._model.served.routing.objective
        if slo is not None:
            deadline_s = asked_s + slo.ttft_ms / 1e3 + slo.ttft_ms_per_1k_prompt_tokens / 1e6 * tokens
        known = table.states, table.members, table.candidates, table.latency_s, table.busy_s
        asked = float(tokens), asked_s, deadline_s, self._backlog.behind_s(account)
        together_s = self._decisions.join(*known, self._waiting, self._queue, row, *asked)
        self._backlog.add(account, together_s)
        self._rows[call] = row, now_s, together_s
        self._calls[row] = call
        self._look_at(0.0)

    def leave(self, call: Call) -> None:
        """Take a call out. Of one that is not there: no harm."""
        if call in self._rows:
            row = self._rows[call][0]
            self._decisions.leave(self._waiting, self._queue, row)
            self._forget(row)

    def note(self, member: str, state: tuple[bool, bool, bool, int, int, float]) -> None:
        """Learn what a member could take now: the fields of `MemberState`."""
        number = self._numbers.get(member)
        if number is not None:
            self._table.rows.states[number] = state
            if self._rows:
                self._look_at(0.0)

    def _look(self) -> None:
        self._next, self._next_s, self._is_looking = None, inf, True
        table, now_s = self._table, self._loop.time()
        look_s = now_s
        for turn in range(_MOST_BOUND):
            row, member = self._decisions.bind(*arrays(table.rows), self._waiting, self._queue, now_s, turn == 0)
            if row < 0:
                next_s = self._decisions.next_look_s(table.rows.members, self._waiting, self._queue, now_s)
                look_s = max(now_s + _TICK_S, min(next_s, self._give_up_late(now_s)))
                break
            route = table.routes[table.rows.candidates[member]["route"]]
            chosen = table.rows.chosen[: len(route.legs)].tolist()
            times = table.rows.latency_s[table.rows.members[member]["times"]]
            predicted_s = seconds(times, float(self._waiting[row]["tokens"]))
            chosen_route = ChosenRoute(route, tuple([table.of[each] for each in chosen]))
            self._owner.bind(self._forget(row), chosen_route, predicted_s)
        self._is_looking = False
        if self._rows and now_s >= self._asked_s + _ASK_S:
            self._asked_s, head = now_s, int(self._queue[0]["head"])
            slack_s = inf if head < 0 else float(self._waiting[head]["latest_s"]) - now_s
            self._owner.ask_for_places(table.of, slack_s, len(self._rows))
        if self._rows and look_s < inf:
            self._look_at(look_s)

    def _give_up_late(self, now_s: float) -> float:
        """Give up calls that have waited too long while no member took any; when the next one is due."""
        if self._model.is_open:
            self._closed_s = inf
            return inf
        self._closed_s = min(self._closed_s, now_s)
        for call, (_, joined_s, _) in list(self._rows.items()):
            late_s = max(joined_s, self._closed_s) + self._most_wait_s
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

    def _forget(self, row: int) -> Call:
        """Let its row be another call's."""
        call = self._calls[row]
        assert call is not None  # noqa: S101 - it is in the queue
        self._calls[row] = None
        self._backlog.remove(call.asked.account, self._rows.pop(call)[2])
        self._free.append(row)
        return call

    def _grow(self) -> None:
        count = len(self._calls)
        more = max(64, count)
        waiting = new_waiting(count + more)
        waiting[:count] = self._waiting
        self._waiting = waiting
        self._calls += [None] * more
        self._free += range(count, count + more)
