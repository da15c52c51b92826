"""What waits at the members of models that are served from pools by stage (`late-pull-v1`), and who is done first."""

from collections.abc import Collection, Iterable
from functools import partial
from math import inf

from control.gateway.attempt import Attempt
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import BY_SIZE, ModelEntry
from policies.pools.dispatches import DISPATCHES
from policies.pools.pending_work import PendingWork
from policies.pools.turns import TURNS, Waiting
from policies.routing import BY_LOAD, Place
from policies.routing_table import RoutedInstance

_TURN = TURNS[DISPATCHES[BY_LOAD].turn]
_MOST_LATER_S = 3600.0


class Pools:
    """Members of several request types of an app are the same ones: what waits there counts once."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self._metrics = metrics
        self.pending = PendingWork({})
        """By member: rows of pictures and sounds, tokens of prompts."""
        self._members: dict[tuple[str, Place], dict[str, RoutedInstance]] = {}
        """By model and place."""
        self._shown: tuple[str, ...] = ()

    def update(self, models: Iterable[ModelEntry]) -> None:
        """Take a new table, of which models under other policies are nothing here."""
        rates: dict[tuple[str, str], float] = {}
        self._members = {}
        for model in (each for each in models if each.is_by_load):
            legs = {leg.work_class: leg for route in model.served.routing.routes for leg in route.legs}
            for member in model.served.routing.members:
                for work_class in legs.keys() & member.units_per_s.keys():
                    leg, rate = legs[work_class], member.units_per_s[work_class]
                    if leg.unit not in BY_SIZE:  # writes: a mean prompt waits for each mean request
                        rate *= max(1.0, model.served.mean_prompt_tokens) / leg.units_per_request
                    rates[member.id, work_class] = rate
                    self._members.setdefault((model.id, (member.zone, work_class)), {})[member.id] = member
        total: dict[str, float] = {}
        for (member_id, _), rate in rates.items():
            total[member_id] = total.get(member_id, 0.0) + rate
        for gone in [name for name in self._shown if name not in total]:
            self._metrics.instance_pending_s.remove(gone)
        self.pending.update(total)
        for name in total:
            self._metrics.instance_pending_s.labels(name).set_function(partial(self.pending.pending_s, name))
        self._shown = tuple(total)

    def open_at(self, model: ModelEntry, place: Place, avoided: Collection[str]) -> dict[str, RoutedInstance]:
        """Members at a place that can be sent something now."""
        own = self._members.get((model.id, place), {})
        return {name: member for name, member in own.items() if name not in model.closed and name not in avoided}

    def done_first(self, model: ModelEntry, place: Place, avoided: Collection[str]) -> RoutedInstance | None:
        """Who of these has done first what it has; None: there is none."""
        able = self.open_at(model, place, avoided)
        found = self.pending.least(able)
        return None if found is None else able[found]

    def begin(self, attempt: Attempt) -> None:
        """Its prompt is sent to its first member, and waits there."""
        if attempt.first is not None and attempt.first.instance in self.pending:
            attempt.waiting_tokens = len(attempt.call.asked.prompt) + len(attempt.call.generated)
            self.pending.send(attempt.first.instance, attempt.waiting_tokens)

    def later_s(self, attempt: Attempt, model: ModelEntry | None, now_s: float) -> float:
        """How much later than now the turn of its prompt is at its first member; 0 where that is not of a pool."""
        if not attempt.waiting_tokens or attempt.first is None or model is None:
            return 0.0
        slo, asked = model.served.routing.objective, attempt.call.asked
        work_s = self.pending.seconds(attempt.first.instance, attempt.waiting_tokens)
        due_s = inf if slo is None else slo.first_token_ms(len(asked.prompt)) / 1000
        later_s = _TURN(Waiting(asked.arrived_s, now_s, work_s, due_s)) - now_s
        return min(max(later_s, -_MOST_LATER_S), _MOST_LATER_S)

    def end(self, attempt: Attempt) -> None:
        """Its prompt is computed there, or is to be no more."""
        if attempt.first is not None:
            self.pending.done(attempt.first.instance, attempt.waiting_tokens)
            attempt.waiting_tokens = 0
