"""Keeps a fleet as its plan wants it, until told to end: look, learn, launch, end, tell, publish."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from agents.channels.dialer import Address
from agents.messages.to_hub import OUT_OF_MEMORY
from control.db.errors import DatabaseUnavailableError
from control.executor.node_start import NodeStart
from control.executor.provision import provision
from control.executor.repair import repair
from control.executor.wind_down import wind_down
from control.fleet.back_off import BackOff
from control.fleet.launches import Launch, launches, surplus
from control.fleet.places import places
from control.fleet.stores import FleetStores
from control.fleet.wanted import Wanted
from control.hub.board import Board
from control.hub.deployed import Deployed, ModelFiles
from control.hub.gang import Gang, gang_of
from control.hub.hub import Hub
from control.lifecycle.advance import Transition
from control.lifecycle.event import Event, EventKind
from control.lifecycle.history import PastTransition
from control.lifecycle.patience import Patience
from control.lifecycle.state import InstanceState
from templates_lib.instance import Instance
from templates_lib.offer import Market, Offer

_log = logging.getLogger(__name__)

_LEAST_KV_SHARE = 1 / 8
_SERVING = frozenset({InstanceState.READY, InstanceState.DRAINING})
_OUT = frozenset({InstanceState.FAILED, InstanceState.TERMINATING})


@dataclass(frozen=True, slots=True, eq=False)
class FleetOrder:
    """What is to be kept running."""

    name: str
    wanted: tuple[Wanted, ...]
    earlier: tuple[Wanted, ...]
    """Of plans before this one, whose instances may still run."""
    offers: tuple[Offer, ...]
    files: dict[str, ModelFiles]
    """By model name."""
    memory_mib: dict[str, int]
    """Node configuration → for weights and KV cache."""


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    tick_s: float = 0.25
    repair_s: float = 5.0
    in_flight: timedelta = timedelta(minutes=2)
    """`recover` leaves calls alone that began later: they may be under way."""
    patience: Patience = field(default_factory=Patience)
    end_s: float = 10.0
    """For what is under way when the fleet is ended; the rest is cut off."""


Ready = list[tuple[str, Wanted, Address]]


class FleetKeeper:
    """Make it on the hub's loop."""

    def __init__(
        self,
        order: FleetOrder,
        stores: FleetStores,
        board: Board,
        publish: Callable[[Ready], None],
        said: Callable[[PastTransition], None],
        settings: KeeperSettings | None = None,
    ) -> None:
        """`publish` is told what is ready, whenever that has changed and every `repair_s`, in a thread; `said` of every
        step in an instance's life, whoever took it."""
        self._order = order
        self._stores = stores
        self._board = board
        self._publish = publish
        self._said = said
        self._settings = settings or KeeperSettings()
        self._wanted = order.wanted
        self._by_column = {wanted.column: wanted for wanted in (*order.earlier, *order.wanted)}
        self._gangs: dict[str, Gang] = {}
        self._kv_share: dict[tuple[str, str, Market], float] = {}
        self._addresses: dict[str, Address] = {}
        self._published: Ready | None = None
        self._published_s = 0.0
        self._back_off = BackOff()
        self._busy: dict[str, asyncio.Task[None]] = {}
        """Instance → a call to clouds that is under way for it."""
        self._again_s: dict[str, float] = {}
        """Instance → when a cloud may be asked for its nodes again."""
        self._known: dict[str, Instance] = {}
        self._noted: dict[str, int] = {}
        """Instance → version after the last step that was noted."""
        self._hub: Hub | None = None
        self._start: NodeStart | None = None

    def expect(self, addresses: dict[str, Address]) -> None:
        """Where schedulers were when a table was published last: right until their nodes say otherwise."""
        self._addresses = dict(addresses)

    async def load(self) -> None:
        """Mend what an earlier run left, and put on the board what is on record. Call it before the hub listens, and
        while nobody else calls clouds for this fleet."""
        await self._repair(timedelta(0))
        # What became of them before is no news.
        instances = await asyncio.to_thread(self._stores.instances.of_fleet, self._order.name)
        self._noted = {instance.id: instance.version for instance in instances}
        await self._look()

    def begin(self, hub: Hub, start: NodeStart) -> None:
        """From now on nodes can be spoken to; new ones are started with `start`."""
        self._hub, self._start = hub, start

    @property
    def ready(self) -> set[str]:
        """Of those that the plan wants."""
        unwanted = {instance.id for instance in surplus(self._wanted, self._known.values())}
        return {i.id for i in self._known.values() if i.state == InstanceState.READY} - unwanted

    @property
    def nodes(self) -> set[str]:
        """Of all its instances, rented or on their way."""
        return {node.id for instance in self._known.values() for node in instance.nodes}

    async def run(self) -> None:
        """Until cancelled. A database that does not answer stops nothing that serves."""
        repaired_s = -self._settings.repair_s
        while True:
            try:
                await self._look()
                await self._learn()
                if time.monotonic() - repaired_s >= self._settings.repair_s:
                    await self._repair(self._settings.in_flight)
                    repaired_s = time.monotonic()
                await self._launch()
                self._end_what_is_out()
            except DatabaseUnavailableError as error:
                _log.warning("%s", error)
            await self._tell()
            await asyncio.sleep(self._settings.tick_s)

    async def end(self) -> dict[str, str]:
        """Give everything back, cleanly where it takes no longer than `end_s`; node → why it may still be billed."""
        give_up_s = time.monotonic() + self._settings.end_s
        self._wanted = ()
        await asyncio.gather(*self._busy.values(), return_exceptions=True)
        await self._look()
        await self._learn()
        await self._tell()
        while any(i.state in _SERVING for i in self._known.values()) and time.monotonic() < give_up_s:
            await asyncio.sleep(self._settings.tick_s)
            await self._look()
            await self._learn()
            await self._tell()
        outcomes = await asyncio.gather(*(self._wind_down(name, "the fleet is ended") for name in self._known))
        await self._look()
        return {node: why for outcome in outcomes for node, why in outcome.items()}

    async def _look(self) -> None:
        """Read what is on record, put it on the board, and take note of what has happened since the last look."""
        instances, deployed = await asyncio.to_thread(self._read)
        known, self._known = self._known, {instance.id: instance for instance in instances}
        self._board.deploy(deployed)
        for instance in instances:
            if instance.version != self._noted.get(instance.id, 0):
                await self._note(instance)
        for instance in known.values():
            if instance.id not in self._known:
                await self._note(instance)
                for kept in (self._noted, self._again_s, self._gangs, self._addresses):
                    kept.pop(instance.id, None)

    def _read(self) -> tuple[tuple[Instance, ...], list[Deployed]]:
        instances = self._stores.instances.of_fleet(self._order.name)
        deployed = []
        for instance in instances:
            gang = self._gang(instance)
            held = self._stores.nodes.of_instance(instance.id)
            nodes = tuple(held[p].name if p in held else None for p in range(len(gang.places)))
            memory = tuple(self._order.memory_mib.get(place.config, 0) for place in gang.places)
            state = InstanceState(instance.state)
            deployed.append(Deployed(instance.id, state, gang, self._files(instance), nodes, memory))
        return instances, deployed

    def _gang(self, instance: Instance) -> Gang:
        gang = self._gangs.get(instance.id)
        if gang is None:
            gang = gang_of(self._stores.instances.template(instance.id))
            gang = gang.with_kv_share(self._kv_share.get(_column(instance), 1.0))
            self._gangs[instance.id] = gang
        return gang

    def _files(self, instance: Instance) -> ModelFiles | None:
        wanted = self._by_column.get(_column(instance))
        return None if wanted is None else self._order.files.get(wanted.model)

    async def _learn(self) -> None:
        """Apply what the nodes report, and what the plan does not want any more."""
        for name, event in self._board.events(time.monotonic()):
            await self._apply(self._known[name], event)
        for instance in surplus(self._wanted, self._known.values()):
            kind = EventKind.DRAIN if instance.state == InstanceState.READY else EventKind.RELEASE
            await self._apply(instance, Event(kind, "no plan wants it any more"))

    async def _apply(self, instance: Instance, event: Event) -> None:
        now = self._stores.executor.clock()
        step = await asyncio.to_thread(self._stores.instances.apply, instance.id, event, now)
        if not isinstance(step, Transition):
            return
        self._known[instance.id] = step.after
        await self._note(instance)

    async def _note(self, instance: Instance) -> None:
        """Every step of its life since the last time: others take some, such as who compares rows with clouds."""
        column = _column(instance)
        for step in await asyncio.to_thread(self._stores.instances.history, instance.id):
            if step.version <= self._noted.get(instance.id, 0):
                continue
            self._noted[instance.id] = step.version
            if step.to_state is InstanceState.READY:
                self._back_off.worked(column)
            elif step.to_state is InstanceState.FAILED:
                self._back_off.failed(column, time.monotonic())
                if step.from_state is InstanceState.LOADING and OUT_OF_MEMORY in step.reason:
                    self._kv_share[column] = max(_LEAST_KV_SHARE, self._kv_share.get(column, 1.0) / 2)
            self._said(step)

    async def _repair(self, in_flight: timedelta) -> None:
        done = await asyncio.to_thread(
            repair,
            self._order.name,
            self._stores.instances,
            self._stores.nodes,
            self._stores.executor,
            self._settings.patience,
            in_flight,
        )
        for what, why in done.recovered.failed.items():
            _log.warning("%s cannot be mended now: %s", what, why)
        await asyncio.to_thread(self._stores.nodes.heard_of, self._board.loads(), self._stores.executor.clock())
        if self._hub is not None:
            await self._hub.refresh()

    async def _launch(self) -> None:
        if self._start is None:
            return
        now_s = time.monotonic()
        due = [w for w in self._wanted if self._back_off.may(w.column, now_s)]
        used: set[str] = set()
        for plan in {w.plan_id for w in due}:
            used |= await asyncio.to_thread(self._stores.instances.ids_of_plan, plan)
        for launch in launches(due, self._known.values(), used):
            await self._request(launch)
        for instance in self._known.values():
            waits = instance.state in (InstanceState.REQUESTED, InstanceState.PROVISIONING)
            if waits and now_s >= self._again_s.get(instance.id, now_s):
                self._begin(instance.id, self._provision(instance))

    async def _request(self, launch: Launch) -> None:
        w, now = launch.wanted, self._stores.executor.clock()
        new = Instance(launch.id, w.template.id, w.zone, w.market, InstanceState.REQUESTED, (), fleet=self._order.name)
        made = await asyncio.to_thread(self._stores.instances.request, new, w.template, w.plan_id, now)
        self._known[made.id] = made

    async def _provision(self, instance: Instance) -> None:
        wanted = self._by_column.get(_column(instance))
        if wanted is None or self._start is None:
            return
        gang = self._gang(instance)
        where = places(wanted, gang, self._order.offers, self._start)
        stores = self._stores
        done = await asyncio.to_thread(provision, stores.instances, stores.nodes, stores.executor, instance.id, where)
        for refused in done.refused:
            _log.warning("%s is refused: %s", refused.offer, refused.error)
        if done.waiting:
            wait_s = max(error.retry_after_s for error in done.waiting.values())
            self._again_s[instance.id] = time.monotonic() + wait_s

    def _end_what_is_out(self) -> None:
        for instance in self._known.values():
            if instance.state in _OUT:
                self._begin(instance.id, self._ended(instance.id))

    async def _ended(self, name: str) -> None:
        await self._wind_down(name, "it does not serve any more")

    async def _wind_down(self, name: str, reason: str) -> dict[str, str]:
        stores = self._stores
        try:
            done = await asyncio.to_thread(wind_down, stores.instances, stores.executor, name, reason)
        except ValueError as error:
            return {name: str(error)}
        return done.left

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """One call to clouds at a time for an instance."""
        if name in self._busy:
            work.close()
            return
        task = asyncio.create_task(work)
        self._busy[name] = task

        def done(task: asyncio.Task[None]) -> None:
            del self._busy[name]
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("instance %s: %s", name, error)

        task.add_done_callback(done)

    async def _tell(self) -> None:
        """Nodes of their work, gateways of what is ready."""
        if self._hub is not None:
            self._hub.tell()
        ready: Ready = []
        for instance in self._known.values():
            wanted = self._by_column.get(_column(instance))
            said = self._board.scheduler(instance.id)
            if said is not None:
                self._addresses[instance.id] = Address(said.endpoint, said.public_key)
            if instance.state == InstanceState.READY and wanted is not None and instance.id in self._addresses:
                ready.append((instance.id, wanted, self._addresses[instance.id]))
        if ready != self._published or time.monotonic() - self._published_s > self._settings.repair_s:
            self._published, self._published_s = ready, time.monotonic()
            try:
                await asyncio.to_thread(self._publish, ready)
            except OSError as error:
                _log.error("the routing table cannot be written, gateways serve by the last one: %s", error)


def _column(instance: Instance) -> tuple[str, str, Market]:
    return instance.template_id, instance.zone, instance.market
