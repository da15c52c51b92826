"""Runs requests over a fleet's timeline: the production routers, and schedulers and hand-offs as machine code."""

import numpy as np

from control.simulator.serving.arrays import PICKS, limits_of, with_room, world_of
from control.simulator.serving.changes import Change, What, changes
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.front import Front
from control.simulator.serving.kernel import columns as c
from control.simulator.serving.kernel.run import run
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Served, Use
from control.simulator.serving.settings import ServingSettings
from policies.routing import ChosenRoute


def simulate(requests: Requests, fleet: FleetTimeline, settings: ServingSettings | None = None) -> Served:
    """What becomes of each request, on one core. The same arguments give the same answer, bit by bit.

    Raises ValueError for an instance of two legs on nodes that can hand no KV cache over."""
    return _Simulation(requests, fleet, settings or ServingSettings()).run()


class _Simulation:
    """The kernel, and what it has to be told: choices of routers, and changes of the fleet.

    Choices are asked for ahead of need, as they depend on nothing but how many were made before; when something
    changes, those that were not needed are taken back.
    """

    def __init__(self, requests: Requests, fleet: FleetTimeline, settings: ServingSettings) -> None:
        self._requests = requests
        self._fleet = fleet
        self._settings = settings
        self._world = world_of(requests, fleet, settings)
        self._limits = limits_of(settings)
        self._fronts = [Front(app, fleet.instances) for app in requests.apps]
        self._before = [front.router for front in self._fronts]
        """Routers as they were before the choices that the kernel holds."""
        self._ahead = [1] * len(self._fronts)
        """How many choices each is asked for next: more as long as they are all needed."""
        self._usable: set[str] = set()
        self._index = {life.id: number for number, life in enumerate(fleet.instances)}
        apps = self._world.instances[:, c.I_APP]
        self._own = [np.flatnonzero(apps == app) for app in range(len(self._fronts))]
        """By app, the instances that serve it."""

    def run(self) -> Served:
        for change in changes(self._fleet, self._settings.lost_after_s):
            self._go_on(change.at_s)
            self._world.registers_f[c.RF_NOW_S] = change.at_s
            self._change(change)
        self._go_on(self._fleet.length_s)
        return self._served()

    def _go_on(self, until_s: float) -> None:
        while True:
            match run(self._world, self._limits, until_s):
                case c.REACHED:
                    return
                case c.DRY:
                    call = self._world.registers[c.R_PENDING]
                    self._fill(int(self._requests.app[self._world.calls[call, c.C_REQUEST]]))
                case c.ROOM:
                    app = int(self._world.registers[c.R_ROOM])
                    self._world.registers[c.R_ROOM] = -1
                    self._take_back(app)
                    self._note_room(app)
                case c.FULL:
                    self._world = with_room(self._world)

    def _change(self, change: Change) -> None:
        if change.what is What.DEAD:
            self._world.instances[change.number, c.I_ALIVE] = 0
            return
        if change.what is What.TABLE:
            models = self._fleet.tables[change.number][1]
            for app, front in enumerate(self._fronts):
                self._take_back(app)
                front.take_table(models)
        elif change.what is What.READY:
            self._usable.add(self._fleet.instances[change.number].id)
        else:
            self._usable.discard(self._fleet.instances[change.number].id)
        own = None if change.what is What.TABLE else self._fleet.instances[change.number].app
        for app, name in enumerate(self._requests.apps):
            if own in (None, name):
                self._refresh(app)
        if change.what is What.LOST:
            self._world.registers[c.R_LOST] = change.number
            self._go_on(change.at_s)
        for app in range(len(self._fronts)):
            self._world.registers[[c.R_WAKE, c.R_WAKES]] = app, self._world.apps[app, c.A_PARKED]
            self._go_on(change.at_s)

    def _refresh(self, app: int) -> None:
        """What can be used of it, and its rates, may be other ones."""
        self._take_back(app)
        front, world = self._fronts[app], self._world
        front.take_usable(self._usable)
        world.apps[app, c.A_KNOWN] = front.is_known
        world.apps_f[app, [c.AF_PROMPT_PER_S, c.AF_OUTPUT_PER_S]] = front.rates
        self._note_room(app)

    def _note_room(self, app: int) -> None:
        """Which of its instances are full."""
        front, own = self._fronts[app], self._own[app]
        full = own[self._world.instances[own, c.I_ROOM] <= 0]
        front.take_full([self._fleet.instances[number].id for number in full])
        self._world.picked[app] = (0, 0 if front.router.can_choose(front.closed) else -1)

    def _fill(self, app: int) -> None:
        """Choices for the next calls."""
        front, world, ahead = self._fronts[app], self._world, self._ahead[app]
        self._before[app] = front.router.twin()
        for place in range(ahead):
            world.picks[app, place] = self._numbers(front.router.choose(front.closed))
        world.picked[app] = (0, ahead)
        self._ahead[app] = min(2 * ahead, PICKS)

    def _take_back(self, app: int) -> None:
        """Have the router be where the kernel is."""
        front, (taken, made) = self._fronts[app], self._world.picked[app]
        if made > taken:
            self._ahead[app] = 1
            front.router = self._before[app].twin()
            for _ in range(taken):
                front.router.choose(front.closed)
        self._world.picked[app] = (0, min(made, 0))

    def _numbers(self, chosen: ChosenRoute | None) -> tuple[int, int]:
        assert chosen is not None  # noqa: S101 - `_note_room` says whether there is a way
        first, *others = (self._index[member.id] for member in chosen.members)
        return first, others[0] if others else -1

    def _served(self) -> Served:
        world = self._world
        outcomes, times_s, instances = world.outcomes, world.times_s, world.instances
        ends = (instances[:, c.I_USE_AT] + instances[:, c.I_USES])[:-1]
        use = Use(self._settings.use_interval_s, instances[:, c.I_USE_FIRST].copy(), tuple(np.split(world.use_s, ends)))
        return Served(
            outcome=outcomes[:, c.O_OUTCOME].astype(np.int8),
            prefill_instance=outcomes[:, c.O_PREFILL],
            decode_instance=outcomes[:, c.O_DECODE],
            queued_s=times_s[:, c.OF_QUEUED_S],
            first_token_s=times_s[:, c.OF_FIRST_S],
            accepted_s=times_s[:, c.OF_ACCEPTED_S],
            handed_s=times_s[:, c.OF_HANDED_S],
            finish_s=times_s[:, c.OF_FINISH_S],
            made_tokens=outcomes[:, c.O_MADE],
            restarts=outcomes[:, c.O_RESTARTS],
            preemptions=outcomes[:, c.O_PREEMPTIONS],
            use=use,
        )
