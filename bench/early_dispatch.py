"""Dispatch at arrival by the work that instances have left, in the simulator: what late binding is compared with."""

from collections.abc import Callable

import numpy as np

from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Served
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import Simulation
from policies.rows import Floats, column
from policies.slack import PROMPT_POINTS

Choice = Callable[[Floats, np.random.Generator], int]
"""Chooses by when each instance would be through with the request."""


def least_loaded(ends_s: Floats, _: np.random.Generator) -> int:
    """Of all the one that is through with it first."""
    return int(ends_s.argmin())


def power_of_two(ends_s: Floats, draw: np.random.Generator) -> int:
    """The better of two that are drawn."""
    if len(ends_s) == 1:
        return 0
    one = int(draw.integers(len(ends_s)))
    other = (one + 1 + int(draw.integers(len(ends_s) - 1))) % len(ends_s)
    return min(one, other, key=lambda at: ends_s[at])


class EarlyDispatch(Simulation):
    """Prompts go at their arrival to the instance that is chosen by the work that it has left, the request included:
    seconds by the table of times that `slack-v1` goes by, and none where it holds no request. Their answers go to the
    decode instance with the fewest requests for what it is certified for, as power of two has it to the better of two.
    The fleet has one route of two legs and stays as it is."""

    def __init__(
        self, requests: Requests, fleet: FleetTimeline, settings: ServingSettings, choice: Choice, seed: int
    ) -> None:
        super().__init__(requests, fleet, settings)
        (model,) = fleet.tables[0][1]
        number = {life.id: at for at, life in enumerate(fleet.instances)}
        timed = [member for member in model.members if member.times is not None]
        rest = [member for member in model.members if member.times is None]
        self._prefill = np.array([number[member.id] for member in timed])
        self._decode = np.array([number[member.id] for member in rest])
        self._rate = np.array([sum(member.units_per_s.values()) for member in rest])
        points, busy = np.unique(requests.prompt_tokens), [member.times.busy_s for member in timed if member.times]
        self._row = np.searchsorted(points, requests.prompt_tokens)
        self._busy_s = np.array([np.interp(points, PROMPT_POINTS, of) for of in busy]).T.copy()
        self._free_s = np.zeros(len(timed))
        self._choice, self._draw = choice, np.random.default_rng(seed)
        self._view()

    def _fill(self, app: int) -> None:
        if self._world is not self._viewed:
            self._view()
        now_s, request = self._now_s[0], self._of_call[self._pending[0]]
        free_s = np.where(self._held[self._prefill] == 0, now_s, np.maximum(self._free_s, now_s))
        ends_s = free_s + self._busy_s[self._row[request]]
        first = self._choice(ends_s, self._draw)
        self._free_s[first] = ends_s[first]
        last = self._choice((self._held[self._decode] + 1) / self._rate, self._draw)
        self._world.picks[app, 0, :3] = 0, self._prefill[first], self._decode[last]
        self._taken[app], self._made[app] = 0, 1

    def _view(self) -> None:
        """Columns of the world as arrays: records would take longer than the choice."""
        self._viewed = w = self._world
        self._now_s, self._pending = column(w.state, "now_s"), column(w.state, "pending")
        self._of_call, self._held = column(w.calls, "request"), column(w.instances, "held")
        self._taken, self._made = column(w.picked, "taken"), column(w.picked, "made")

    def _take_back(self, app: int) -> None:
        self._pick(app, 0, min(self._world.picked[app].made, 0))


def dispatched_early(requests: Requests, fleet: FleetTimeline, settings: ServingSettings, choice: Choice) -> Served:
    return EarlyDispatch(requests, fleet, settings, choice, 0).run()
