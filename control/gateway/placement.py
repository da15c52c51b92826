"""Which executors do the units of a call on the route that was chosen for it: in turn, or by what waits at each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from control.gateway.call import Call
from control.gateway.model_entry import ModelEntry
from control.gateway.pools import Pools
from control.gateway.tasks.unit_graph import EncodeStep, UnitGraph
from policies.pools.media_spread import behind_s, spread
from policies.routing import ChosenRoute, Place
from policies.routing_table import RoutedInstance

_LONGEST_BEHIND_S = 60.0
"""A unit waits no longer at an executor, whatever capacity says."""


@dataclass(frozen=True, slots=True)
class Placed:
    member: RoutedInstance
    behind_s: float = 0.0
    """As of `Encode`."""


class Placement(Protocol):
    steps: Sequence[EncodeStep]
    """What is still to be encoded."""
    takers: int
    """How often the decoder takes each tensor of rows."""

    def member(self, step: EncodeStep, *, is_first: bool) -> Placed | None:
        """Who is to do a step, at its first try or another one; None: nobody of its leg can be sent anything."""

    def done(self, step: EncodeStep) -> None:
        """Its rows are there."""

    def close(self) -> None:
        """No step is done any more."""


def placement(
    call: Call, graph: UnitGraph, model: ModelEntry, chosen: ChosenRoute, takers: int, pools: Pools
) -> Placement | None:
    """Place what is still to be encoded for a call on a route, under the model's policy. None: all is there."""
    steps = tuple(dict.fromkeys(step for step in graph.encodes if step.part not in call.rows))
    if not steps:
        return None
    if model.is_by_load:
        return PlacementByLoad(call, steps, model, chosen, takers, pools)
    return PlacementInTurn(call, steps, model, chosen, takers)


def _place(chosen: ChosenRoute, leg: int) -> Place:
    return chosen.members[leg].zone, chosen.route.legs[leg].work_class


class PlacementInTurn:
    """The member that was chosen for a leg has its first unit, the others go to members in turn, as do those that are
    done again."""

    def __init__(
        self, call: Call, steps: Sequence[EncodeStep], model: ModelEntry, chosen: ChosenRoute, takers: int
    ) -> None:
        self.steps, self.takers = steps, takers
        self._call, self._model, self._chosen = call, model, chosen
        self._firsts = {step.leg: step for step in reversed(steps)}

    def member(self, step: EncodeStep, *, is_first: bool) -> Placed | None:
        closed, own = self._model.closed | self._call.avoided, self._chosen.members[step.leg]
        if is_first and self._firsts[step.leg] is step and own.id not in closed:
            return Placed(own)
        found = self._model.router.next_of(_place(self._chosen, step.leg), closed)
        return None if found is None else Placed(found)

    def done(self, step: EncodeStep) -> None:
        """Turns are over with the choice."""

    def close(self) -> None:
        """As above."""


class PlacementByLoad:
    """Units are spread over the members of a leg in its zone (`policies.pools.media_spread`); one that is done again
    goes to the member that is done first then."""

    def __init__(
        self, call: Call, steps: Sequence[EncodeStep], model: ModelEntry, chosen: ChosenRoute, takers: int, pools: Pools
    ) -> None:
        self.steps, self.takers = steps, takers
        self._call, self._model, self._chosen, self._pools = call, model, chosen, pools
        self._placed: dict[EncodeStep, Placed] = {}
        """Steps that are not done."""
        for leg in dict.fromkeys(step.leg for step in steps):
            self._spread(leg, [step for step in steps if step.leg == leg])

    def member(self, step: EncodeStep, *, is_first: bool) -> Placed | None:
        if is_first:
            return self._placed.get(step)
        self.done(step)
        place, pending = _place(self._chosen, step.leg), self._pools.pending
        found = self._pools.done_first(self._model, place, self._call.avoided)
        if found is None:
            return None
        ahead = sum(self._rows(other) for other, placed in self._placed.items() if placed.member.id == found.id)
        pending.send(found.id, self._rows(step))
        self._placed[step] = Placed(found, min(pending.seconds(found.id, ahead), _LONGEST_BEHIND_S))
        return self._placed[step]

    def done(self, step: EncodeStep) -> None:
        if (placed := self._placed.pop(step, None)) is not None:
            self._pools.pending.done(placed.member.id, self._rows(step))

    def close(self) -> None:
        for step in list(self._placed):
            self.done(step)

    def _spread(self, leg: int, steps: Sequence[EncodeStep]) -> None:
        pending = self._pools.pending
        able = self._pools.open_at(self._model, _place(self._chosen, leg), self._call.avoided)
        if not able:
            return
        rows = [self._rows(step) for step in steps]
        names = spread(rows, pending, able)
        seconds = [pending.seconds(name, each) for name, each in zip(names, rows, strict=True)]
        for step, name, later_s in zip(steps, names, behind_s(seconds, names), strict=True):
            self._placed[step] = Placed(able[name], min(later_s, _LONGEST_BEHIND_S))

    def _rows(self, step: EncodeStep) -> int:
        task = self._call.asked.task
        assert task is not None  # noqa: S101 - calls without one have nothing to encode
        return task.units.units[step.part].rows
