"""Calls of apps on the route that was chosen for each: pictures and sounds are encoded first, then somebody writes."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from control.gateway.api_error import unavailable
from control.gateway.call import Call
from control.gateway.encoding import Encoding
from control.gateway.instance_link import InstanceLink
from control.gateway.leg_parts import LegPart, writing_part
from control.gateway.model_entry import ModelEntry
from control.gateway.placement import placement
from control.gateway.pools import Pools
from control.gateway.tasks.task_call import TaskCall
from control.gateway.tasks.unit_graph import UnitGraph
from policies.routing import ChosenRoute

_log = logging.getLogger(__name__)


class AppCalls:
    def __init__(
        self,
        encoding: Encoding,
        pools: Pools,
        links: Mapping[str, InstanceLink],
        model_of: Callable[[str], ModelEntry | None],
        send: Callable[[Call, ChosenRoute, Sequence[LegPart]], bool],
        sent: Callable[[Call], None],
        dispatch: Callable[[Call], None],
    ) -> None:
        """`links`: as they are at any time. `send` begins an attempt, and says whether it is under way; `sent` is told
        of a call that waits no more; `dispatch` chooses another route for one."""
        self._encoding, self._pools, self._links, self._model_of = encoding, pools, links, model_of
        self._send, self._sent, self._dispatch = send, sent, dispatch

    def begin(self, call: Call, task: TaskCall, model: ModelEntry, chosen: ChosenRoute) -> bool:
        """Send it, or have its parts encoded first; False: somebody of the route does not take it, and is avoided."""
        graph = task.graphs.get(chosen.route.id)
        if graph is None:
            call.finish(unavailable(f"`{task.app.served.name}` has no executors for this request's route"))
            return True
        chosen = self._late(call, model, chosen, graph)
        writer = chosen.members[graph.leg]
        takers = self._links[writer.id].takes_rows
        if graph.encodes and not takers:
            _log.warning("instance %s takes no rows of encoders: it is of another release, or engine", writer.id)
            call.avoided.add(writer.id)
            return False
        if graph.encodes and takers != call.takers:  # rows for another decoder are gone too early, or too late
            call.rows.clear()
            self._encoding.withdraw(call)
            call.takers = takers
        if placed := placement(call, graph, model, chosen, takers, self._pools):
            self._encoding.begin(call, placed, partial(self._go_on, task=task, chosen=chosen))
            return True
        return self._send(call, ChosenRoute(chosen.route, (writer,)), (writing_part(chosen.route, graph.leg),))

    def _late(self, call: Call, model: ModelEntry, chosen: ChosenRoute, graph: UnitGraph) -> ChosenRoute:
        """Under `late-pull-v1`, once all rows of the call are there: the route with another writer, the one in its zone
        that is done first, of those that take rows as often as these are kept for."""
        if not model.is_by_load or any(step.part not in call.rows for step in graph.encodes):
            return chosen
        place = chosen.members[graph.leg].zone, chosen.route.legs[graph.leg].work_class
        able = self._pools.open_at(model, place, call.avoided)
        fitting = [name for name in able if not call.rows or self._links[name].takes_rows == call.takers]
        found = self._pools.pending.least(fitting)
        members = list(chosen.members)
        members[graph.leg] = members[graph.leg] if found is None else able[found]
        return ChosenRoute(chosen.route, tuple(members))

    def _go_on(self, call: Call, task: TaskCall, chosen: ChosenRoute) -> None:
        """Its encoding on that route is over. The writer that the rows were made for has it, or, by load, the one that
        is done first: to choose a route again would have each request count as two in the turns of members. It is
        chosen again where rows are missing, as nobody was left to make them, or where the writer cannot be had."""
        model, graph = self._model_of(call.asked.model), task.graphs.get(chosen.route.id)
        if model is not None and graph is not None and all(step.part in call.rows for step in graph.encodes):
            chosen = self._late(call, model, chosen, graph)
            writer, closed = chosen.members[graph.leg].id, model.closed | call.avoided
            is_there = writer not in closed and any(each.id == writer for each in model.served.routing.members)
            if is_there and self.begin(call, task, model, chosen):
                self._sent(call)
                return
        self._dispatch(call)
