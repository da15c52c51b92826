"""Runs requests over a fleet's timeline: the production routers, and schedulers and hand-offs as machine code."""

from dataclasses import replace
from itertools import groupby

import numpy as np

from control.simulator.serving.arrays import PICKS, limits_of, with_room, world_of
from control.simulator.serving.changes import Change, What, changes
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.front import Front
from control.simulator.serving.kernel import records as r
from control.simulator.serving.kernel.run import run
from control.simulator.serving.late_binding_rows import take_model, zone_numbers
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Served, Use
from control.simulator.serving.settings import ServingSettings
from policies.routing import ChosenRoute
from policies.rows import column


def simulate(requests: Requests, fleet: FleetTimeline, settings: ServingSettings | None = None) -> Served:
    """What becomes of each request, on one core. The same arguments give the same answer, bit by bit.

    Raises ValueError for an instance of two legs on nodes that can hand no KV cache over."""
    return Simulation(requests, fleet, settings or ServingSettings()).run()


class Simulation:
    """The kernel, and what it has to be told: choices of routers, and changes of the fleet.

    Choices are asked for ahead of need, as they depend on nothing but how many were made before; when something
    changes, those that were not needed are taken back.
    """

    def __init__(self, requests: Requests, fleet: FleetTimeline, settings: ServingSettings) -> None:
        self._requests = requests
        self._fleet = fleet
        self._settings = settings
        routes = fleet.routes(requests.apps)
        self._route_numbers = {route: number for number, route in enumerate(routes)}
        self._routes = [dict[str, int]() for _ in requests.apps]
        """By app: route of its table → its number in the kernel."""
        self._world = world_of(requests, fleet, routes, settings)
        self._limits = limits_of(settings)
        self._fronts = [Front(app, fleet.work_classes((app,))) for app in requests.apps]
        self._before = [front.router for front in self._fronts]
        """Routers as they were before the choices that the kernel holds."""
        self._ahead = [1] * len(self._fronts)
        """How many choices each is asked for next: more as long as they are all needed."""
        self._usable: set[str] = set()
        self._zones = zone_numbers(fleet)
        self._index = {life.id: number for number, life in enumerate(fleet.instances)}
        self._apps = fleet.apps_of_instances(requests.apps)
        """Apps that each instance serves."""
        self._own = [
            np.array([number for number, own in enumerate(self._apps) if app in own], np.int64)
            for app in range(len(self._fronts))
        ]
        """By app, the instances that serve it."""

    def run(self) -> Served:
        in_order = changes(self._fleet, self._settings.lost_after_s)
        for (at_s, what), alike in groupby(in_order, lambda change: (change.at_s, change.what)):
            self._go_on(at_s)
            self._world.state[0].now_s = at_s
            if what is What.READY:  # together: each refresh is of all instances of a model, thousands at the start
                self._ready([change.number for change in alike], at_s)
                continue
            for change in alike:
                self._change(change)
        self._go_on(self._fleet.length_s)
        return self._served()

    def _go_on(self, until_s: float) -> None:
        while True:
            match run(self._world, self._limits, float(until_s)):
                case r.REACHED:
                    return
                case r.DRY:
                    call = self._world.state[0].pending
                    self._fill(int(self._requests.app[self._world.calls[call].request]))
                case r.ROOM:
                    filled = column(self._world.apps, "filled")
                    self._world.state[0].filled = False
                    for app in np.flatnonzero(filled).tolist():
                        filled[app] = False
                        self._take_back(app)
                        self._note_room(app)
                case r.FULL:
                    self._world = with_room(self._world)

    def _change(self, change: Change) -> None:
        if change.what is What.DEAD:
            self._world.instances[change.number].alive = False
            return
        apps = list(range(len(self._fronts)))
        if change.what is What.TABLE:
            models = self._fleet.tables[change.number][1]
            for app, front in enumerate(self._fronts):
                self._take_back(app)
                front.take_table(models)
                routes = front.router.model.routes
                self._routes[app] = {route.id: self._route_numbers[replace(route, flows=())] for route in routes}
        else:
            apps = self._apps[change.number]
            self._usable.discard(self._fleet.instances[change.number].id)
        for app in apps:
            self._refresh(app)
        if change.what is What.LOST:
            self._world.state[0].lost = change.number
            self._go_on(change.at_s)
        self._wake(change.at_s)

    def _ready(self, numbers: list[int], at_s: float) -> None:
        self._usable |= {self._fleet.instances[number].id for number in numbers}
        for app in sorted({app for number in numbers for app in self._apps[number]}):
            self._refresh(app)
        self._wake(at_s)

    def _wake(self, at_s: float) -> None:
        """Requests that nothing could take are tried again."""
        for number in range(len(self._fronts)):
            own = self._world.apps[number]
            own.wakes = own.parked
            self._world.state[0].waking += own.parked > 0
            self._go_on(at_s)

    def _refresh(self, app: int) -> None:
        """What can be used of it, and its rates, may be other ones."""
        self._take_back(app)
        front, world = self._fronts[app], self._world
        front.take_usable(self._usable)
        world.apps[app].known = front.is_known
        own = slice(world.apps[app].charge_at, world.apps[app].charge_at + world.apps[app].charges)
        for name in ("per_request", "per_prompt_token", "per_output_token", "units_per_s"):
            column(world.charges, name)[own] = [getattr(rule, name) for rule in front.rules]
        take_model(world, app, front.router.model, self._routes[app], self._index, self._zones, front.unusable)
        self._note_room(app)
        world.state[0].refreshed = True

    def _note_room(self, app: int) -> None:
        """Note which of its instances are full."""
        front, room = self._fronts[app], column(self._world.instances, "room")
        own = self._own[app]
        front.take_full([self._fleet.instances[number].id for number in own[room[own] <= 0]])
        self._pick(app, 0, 0 if front.router.can_choose(front.closed) else -1)

    def _fill(self, app: int) -> None:
        """Make choices for the next calls."""
        front, world, ahead = self._fronts[app], self._world, self._ahead[app]
        self._before[app] = front.router.twin()
        for place in range(ahead):
            world.picks[app, place] = self._numbers(app, front.router.choose(front.closed))
        self._pick(app, 0, ahead)
        self._ahead[app] = min(2 * ahead, PICKS)

    def _take_back(self, app: int) -> None:
        """Have the router be where the kernel is."""
        front, picked = self._fronts[app], self._world.picked[app]
        if picked.made > picked.taken:
            self._ahead[app] = 1
            front.router = self._before[app].twin()
            for _ in range(picked.taken):
                front.router.choose(front.closed)
        self._pick(app, 0, min(picked.made, 0))

    def _pick(self, app: int, taken: int, made: int) -> None:
        self._world.picked[app].taken = taken
        self._world.picked[app].made = made

    def _numbers(self, app: int, chosen: ChosenRoute | None) -> list[int]:
        """Route, instance of each leg, and -1 for legs that it has not."""
        assert chosen is not None  # noqa: S101 - `_note_room` says whether there is a way
        numbers = [self._routes[app][chosen.route.id], *(self._index[member.id] for member in chosen.members)]
        return numbers + [-1] * (self._world.picks.shape[2] - len(numbers))

    def _served(self) -> Served:
        fates, instances = self._world.fates, self._world.instances
        ends = (column(instances, "use_at") + column(instances, "uses"))[:-1]
        use = Use(
            self._settings.use_interval_s,
            column(instances, "use_first").copy(),
            tuple(np.split(self._world.use_s, ends)),
        )
        return Served(
            outcome=column(fates, "outcome").astype(np.int8),
            places=self._world.places,
            queued_s=column(fates, "queued_s"),
            first_token_s=column(fates, "first_s"),
            accepted_s=column(fates, "accepted_s"),
            handed_s=column(fates, "handed_s"),
            finish_s=column(fates, "finish_s"),
            made_tokens=column(fates, "made"),
            restarts=column(fates, "restarts"),
            preemptions=column(fates, "preemptions"),
            use=use,
        )
