"""One decision while it is being made. Private to `next_moves`."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from control.diff.capacity import ReadyCapacity, planned_units, ready_units
from control.diff.holdings import rest_of, what_is_left
from control.diff.limits import ChangeLimits, Past
from control.diff.match import Missing, match
from control.diff.moves import Drain, Launch, MoveSet, Release, Wait, WaitKind
from control.diff.room import SupplyRoom
from control.diff.running import Running
from control.diff.spending import refusal, spending_of
from control.diff.supply import Supply
from control.diff.target import Column, Target
from control.lifecycle.names import instance_id

_BY_ROOM = frozenset({WaitKind.SUPPLY, WaitKind.SPEND})
"""Reasons that keep a launch back which may go ahead once others are gone."""


class Round:
    def __init__(
        self,
        wanted: Sequence[Target],
        running: Sequence[Running],
        supply: Supply,
        limits: ChangeLimits,
        past: Past,
        now: datetime,
    ) -> None:
        self._limits, self._past, self._now = limits, past, now
        self._match = match(wanted, running)
        self._capacity = ReadyCapacity(planned_units(wanted), ready_units(running))
        self._launches: list[Launch] = []
        self._drains: list[Drain] = []
        self._releases: list[Release] = []
        self._waits: list[Wait] = []
        self._going: list[Running] = []
        """Told to go in this decision."""
        self._half_made: list[Running] = []
        self._in_use: list[Running] = []
        """Unwanted, not ready or ready, and kept so far."""
        self._blocked: list[tuple[Target, Wait]] = []
        self._release()
        released = {each.id for each in self._going}
        staying = [each for each in running if not each.is_leaving and each.id not in released]
        leaving = [*self._match.leaving, *self._going]
        self._spending = spending_of(staying, leaving, past, now)
        self._ledger = what_is_left(supply, running)
        for each in staying:
            rest_of(each, self._ledger)
        self._expected: defaultdict[str, float] = defaultdict(float)
        """Units per second by work class of what is wanted and on its way to be ready."""
        for each in self._match.kept:
            if not each.is_ready:
                self._expect(each.units_per_s)
        self._taken_ids = past.used | {each.id for each in running}
        self._allowance = limits.disruption.allowance(len(staying))
        self._drains_left = self._allowance
        if self._drains_left is not None:
            self._drains_left -= past.drains(limits.disruption.window, now)

    def launch(self) -> None:
        """One by one, of the column whose scarcest class is shortest."""
        # A share only grows while instances are added: what comes up is looked at again before it is believed.
        order = [(self._shortest(m.target), m.target.column, m) for m in self._match.missing]
        heapq.heapify(order)
        copies: dict[Column, int] = {}
        while order:
            share, column, missing = heapq.heappop(order)
            now = self._shortest(missing.target)
            if now > share and order and now > order[0][0]:
                heapq.heappush(order, (now, column, missing))
                continue
            wait = self._launch_one(missing, copies)
            if wait is None and missing.count > 1:
                heapq.heappush(order, (now, column, replace(missing, count=missing.count - 1)))
            elif wait is not None and wait.kind in _BY_ROOM:
                self._blocked.append((missing.target, wait))
            elif wait is not None:
                self._waits.append(wait)

    def drain(self) -> None:
        for each in self._match.unwanted:
            if not each.is_ready:
                continue
            if self._capacity.spares(each.units_per_s) and self._may_drain(1):
                self._drain(each, "the plan does not want it, and what stays serves as much as is wanted", {})
            else:
                self._in_use.append(each)

    def make_room(self) -> None:
        """Free room for one of each column that supply or spending refused."""
        room = SupplyRoom(self._ledger, self._spending, self._limits)
        room.give((*self._match.leaving, *self._going))
        for target, wait in self._blocked:
            if room.take(target):
                self._waits.append(replace(wait, kind=WaitKind.ROOM, reason=f"{wait.reason}; room is being made"))
                self._expect(target.units_per_s)
                continue
            found = room.victims(target, [*self._half_made, *self._in_use], partial(self._may_go, target))
            going = self._as_far_as_the_budget_goes(found)
            if not going:
                self._waits.append(wait)
                continue
            self._break(target, going)
            room.give(going)
            room.take(target)
            self._waits.append(replace(wait, kind=WaitKind.ROOM, reason=f"{wait.reason}; room is being made"))

    def moves(self) -> MoveSet:
        for each in self._half_made:
            self._keep(each, WaitKind.CAPACITY, "it stays until enough others are ready")
        for each in self._in_use:
            if self._capacity.spares(each.units_per_s):
                self._keep(each, WaitKind.DISRUPTION, "the disruption budget allows no further drain now")
            else:
                self._keep(each, WaitKind.CAPACITY, "it stays until its replacement is ready")
        # Of what an offer has, gangs come first: they fail for any node that they lack, others fit what is left.
        launches = sorted(self._launches, key=lambda launch: -sum(launch.target.nodes.values()))
        return MoveSet(tuple(launches), tuple(self._drains), tuple(self._releases), _joined(self._waits))

    def _release(self) -> None:
        """Release instances that are not ready: they cost money and serve nobody. But one that has its nodes is nearer
        to it than a replacement without any: it stays while ready capacity is short, unless its room is wanted."""
        for each in self._match.unwanted:
            if each.is_ready:
                continue
            if each.is_rented and any(self._capacity.lacks(name) for name in each.units_per_s):
                self._half_made.append(each)
            else:
                self._give_back(each, "the plan does not want it")

    def _launch_one(self, missing: Missing, copies: dict[Column, int]) -> Wait | None:
        """Return why an instance is not launched now; None when it is, and its supply is taken."""
        target = missing.target

        def wait(kind: WaitKind, reason: str, until: datetime | None = None) -> Wait:
            return Wait(kind, target.column, missing.count, missing.count * target.usd_per_hour, reason, until)

        until = self._past.not_before.get(target.column)
        if until is not None and self._now < until:
            return wait(WaitKind.BACK_OFF, "instances like it failed a moment ago", until)
        nodes = sum(target.nodes.values())
        refused = refusal(self._limits, self._spending, target.usd_per_hour, nodes)
        if refused is not None:
            return wait(refused.kind, refused.reason)
        offers = self._ledger.take(target.nodes, target.zone, target.market)
        if offers is None:
            bill = ", ".join(f"{count} × {config}" for config, count in sorted(target.nodes.items()))
            return wait(WaitKind.SUPPLY, f"{target.zone}, {target.market}, has no room for {bill}")
        self._spending = self._spending.with_launch(target.usd_per_hour, nodes)
        self._expect(target.units_per_s)
        self._launches.append(Launch(self._new_id(target, copies), target, offers, _why(missing)))
        return None

    def _new_id(self, target: Target, copies: dict[Column, int]) -> str:
        while True:
            copy = copies.get(target.column, 0)
            copies[target.column] = copy + 1
            name = instance_id(target.plan_id, target.template_id, target.zone, target.market, copy)
            if name not in self._taken_ids:
                return name

    def _may_go(self, target: Target, them: Sequence[Running]) -> bool:
        """Tell whether they may go without leaving more of a class's planned capacity missing than allowed, or in one
        step at a time."""
        units: defaultdict[str, float] = defaultdict(float)
        for each in them:
            for name, share in each.units_per_s.items() if each.is_ready else ():
                units[name] += share
        share = self._limits.max_loss_share
        if all(
            self._capacity.lacks(name, u) <= share * self._capacity.planned.get(name, 0.0) for name, u in units.items()
        ):
            return True
        return not any(self._expected[name] for name in (*units, *target.units_per_s))

    def _as_far_as_the_budget_goes(self, going: Sequence[Running]) -> Sequence[Running]:
        """All or none, but where no window ever has a budget for all."""
        ready = [each for each in going if each.is_ready]
        if self._may_drain(len(ready)):
            return going
        if self._allowance is None or self._drains_left is None or len(ready) <= self._allowance:
            return ()
        return ready[: max(self._drains_left, 0)]

    def _break(self, target: Target, going: Iterable[Running]) -> None:
        reason = f"{target.zone}, {target.market}, has no room for its replacement while it runs"
        for each in going:
            self._expect(each.units_per_s)
            if each.is_ready:
                self._in_use.remove(each)
                self._drain(each, reason, self._capacity.loss(each.units_per_s))
            else:
                self._half_made.remove(each)
                self._give_back(each, reason)
        self._expect(target.units_per_s)

    def _drain(self, each: Running, reason: str, loss: Mapping[str, float]) -> None:
        self._capacity.take(each.units_per_s)
        self._going.append(each)
        self._drains.append(Drain(each.id, each.usd_per_hour, each.requests, reason, loss))
        if self._drains_left is not None:
            self._drains_left -= 1

    def _give_back(self, each: Running, reason: str) -> None:
        self._going.append(each)
        self._releases.append(Release(each.id, each.usd_per_hour, reason))

    def _keep(self, each: Running, kind: WaitKind, reason: str) -> None:
        self._waits.append(Wait(kind, each.column, 1, each.usd_per_hour, reason))

    def _may_drain(self, instances: int) -> bool:
        return self._drains_left is None or instances <= self._drains_left

    def _expect(self, units_per_s: Mapping[str, float]) -> None:
        for name, units in units_per_s.items():
            self._expected[name] += units

    def _shortest(self, target: Target) -> float:
        """Return the least share of the planned capacity of its classes that is ready or expected."""
        return min((self._capacity.share(name, self._expected[name]) for name in target.units_per_s), default=1.0)


def _why(missing: Missing) -> str:
    target = missing.target
    reason = f"plan {target.plan_id[:8]} wants {target.count} of it in {target.zone}, {target.market}"
    reason += f", and {missing.there or 'none'} {'is' if missing.there == 1 else 'are'} there"
    return f"{reason}; {missing.failed} failed" if missing.failed else reason


def _joined(waits: Iterable[Wait]) -> tuple[Wait, ...]:
    """One for each kind, column and reason."""
    groups: defaultdict[tuple[str, Column, str], list[Wait]] = defaultdict(list)
    for wait in waits:
        groups[wait.kind, wait.column, wait.reason].append(wait)
    return tuple(
        replace(group[0], count=sum(w.count for w in group), usd_per_hour=sum(w.usd_per_hour for w in group))
        for group in groups.values()
    )
