"""Keeps fleets as their orders want them: the fast loop, which plans nothing and waits for no cloud."""

import logging
import math
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from agents.channels.address import Address
from control.cloud.errors import GiveUpError
from control.db.errors import DatabaseUnavailableError
from control.diff.limits import Past
from control.diff.next_moves import next_moves
from control.diff.target import Target
from control.executor.allowance import SpendingCheck
from control.executor.provision import Provisioned
from control.fleet.cloud_work import CloudWork
from control.fleet.effects import Effects
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.kept_fleet import KeptFleet
from control.fleet.observer import NoObserver, Observer
from control.fleet.order import FleetOrder
from control.fleet.stores import FleetStores
from control.hub.board import Board
from control.hub.gang import Gang, UnplaceableError, gang_of
from control.lifecycle.advance import Transition
from control.lifecycle.event import Event, EventKind
from control.lifecycle.held_node import HeldNode
from control.lifecycle.patience import overdue
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance
from templates_lib.values.template import ServingTemplate

_log = logging.getLogger(__name__)

_RENTING = frozenset({InstanceState.REQUESTED, InstanceState.PROVISIONING})
_SERVING = frozenset({InstanceState.READY, InstanceState.DRAINING})
_OUT = frozenset({InstanceState.FAILED, InstanceState.TERMINATING})
_PAST = timedelta(hours=1)

Ready = list[tuple[str, Target, dict[str, Address]]]
"""Instance, what it is, and where the scheduler of each of its executors is."""


class Keeper:
    """Every method is called from one thread at a time, or as its docstring says. What a tick decides for a cloud to do
    is done by `effects` beside it, one call at a time for an instance."""

    def __init__(
        self,
        stores: FleetStores,
        board: Board,
        effects: Effects,
        publish: Callable[[Ready], None],
        settings: KeeperSettings | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        gang: Callable[[ServingTemplate], Gang] = gang_of,
    ) -> None:
        """`publish` is told what is ready, whenever that has changed and every `repair_s`. `gang`: what nodes run of a
        template."""
        self._stores = stores
        self._board = board
        self._clouds = CloudWork(stores, effects, monotonic)
        self._publish = publish
        self.observer: Observer = NoObserver()
        self._settings = settings or KeeperSettings()
        self._monotonic = monotonic
        self._gang_of = gang
        self._fleets: dict[str, KeptFleet] = {}
        self._known: dict[str, Instance] = {}
        self._held: dict[str, dict[int, HeldNode]] = {}
        self._noted: dict[str, int] = {}
        """Instance → version after the last step that was noted."""
        self._warned: frozenset[str] = frozenset()
        """Nodes that their clouds will take, as far as that was told on."""
        self._blamed: frozenset[str] = frozenset()
        """Nodes that are not what they were rented as, as far as that was told on."""
        self._addresses: dict[str, Address] = {}
        self._published: Ready | None = None
        self._published_s = self._repaired_s = -self._settings.repair_s
        self._last_step, self._looked_s = -1, -math.inf

    def keep(self, order: FleetOrder) -> None:
        """Hold a fleet to an order, from the next tick on."""
        self._last_step = -1  # what is on the board depends on it
        if order.name in self._fleets:
            self._fleets[order.name].order = order
            self._fleets[order.name].allowance.limits = order.limits
        else:
            nodes, clock = self._stores.nodes, self._stores.executor.clock
            self._fleets[order.name] = KeptFleet(
                order, SpendingCheck(nodes, order.name, clock, order.limits), self._gang_of
            )

    def forget(self, fleet: str) -> None:
        """End what still runs of a fleet that is not there (any more). A second call does no work."""
        order = self._fleets[fleet].order if fleet in self._fleets else None
        if order is None or order.wanted or order.earlier or not order.acts:
            self.keep(FleetOrder(fleet, ()))

    def expect(self, addresses: dict[str, Address]) -> None:
        """Take the addresses of schedulers, by member, that the last table had: right until their nodes say
        otherwise."""
        self._addresses = dict(addresses)

    def load(self) -> None:
        """Mend what an earlier run left, and put on the board what is on record. Call it before the hub listens, and
        while nobody else calls clouds for these fleets. Raises DatabaseUnavailableError."""
        self._clouds.compare(self._settings.first_in_flight)
        # What became of them before is no news.
        self._noted = {instance.id: instance.version for instance in self._stores.instances.living()}
        self._look()

    def tick(self) -> None:
        """One round. A database that does not answer stops nothing that serves; clouds are never waited for."""
        try:
            self._look()
            self._learn()
            self._repair()
            self._move()
            self._act()
        except DatabaseUnavailableError as error:
            _log.warning("%s", error)
        self._tell()

    @property
    def ready(self) -> set[str]:
        """Return the ids of the ready instances that are wanted."""
        kept = ((i, self._fleets.get(i.fleet)) for i in self._known.values() if i.state == InstanceState.READY)
        return {i.id for i, fleet in kept if fleet is not None and fleet.order.wants(i)}

    @property
    def known(self) -> tuple[Instance, ...]:
        """All that are on record and not terminated, as of the last tick."""
        return tuple(self._known.values())

    @property
    def members(self) -> set[str]:
        """Return the names of all instances' executors in routing tables."""
        kept = ((i.id, self._fleets[i.fleet].gang(i.id)) for i in self._known.values() if self._is_met(i))
        return {gang.member(name, executor.id) for name, gang in kept for executor in gang.executors}

    @property
    def nodes(self) -> set[str]:
        """Return the ids of the nodes of all instances, rented or on their way."""
        return {node.id for instance in self._known.values() for node in instance.nodes}

    def is_settled(self) -> bool:
        """Tell whether every fleet that is acted on is as its order wants it, all of it ready."""
        for name, fleet in self._fleets.items():
            own = [i for i in self._known.values() if i.fleet == name]
            if fleet.order.acts and not (fleet.order.is_met(own) and all(i.state == InstanceState.READY for i in own)):
                return False
        return True

    def end(self, tell: Callable[[], None]) -> dict[str, str]:
        """Give everything back, cleanly where it takes no longer than `end_s`; node → why it may still be billed.

        `tell` has the hub tell nodes of their work, now and then."""
        give_up_s = self._monotonic() + self._settings.end_s
        for name, fleet in self._fleets.items():
            fleet.order = FleetOrder(name, (), fleet.order.wanted + fleet.order.earlier, files=fleet.order.files)
        self._clouds.wait(self._settings.end_s)
        while True:
            self._look()
            self._learn()
            self._move()
            tell()
            if not any(i.state in _SERVING for i in self._known.values()) or self._monotonic() > give_up_s:
                break
            time.sleep(0.05)
        left = self._clouds.end(self._known.values(), 10 * self._settings.end_s)
        self._look()
        return left

    def _look(self) -> None:
        """Read what is on record, put it on the board, and take note of what has happened since the last look.

        Only where an instance has taken a step since, or a while has passed: nodes that come and go in between are
        followed by a step of their instance sooner or later."""
        last = self._stores.instances.last_step()
        if last == self._last_step and self._monotonic() < self._looked_s + self._settings.repair_s:
            return
        self._last_step, self._looked_s = last, self._monotonic()
        own = self._stores.executor.clouds
        instances = [i for i in self._stores.instances.living() if i.zone.partition("/")[0] in own]
        self._held = self._stores.nodes.by_instance()
        before, self._known = self._known, {instance.id: instance for instance in instances}
        for instance in instances:
            self._meet(instance)
            if instance.version != self._noted.get(instance.id, 0):
                self._note(instance)
        for instance in before.values():
            if instance.id not in self._known:
                self._note(instance)
                self._fleets[instance.fleet].forget(instance.id)
                self._clouds.forget(instance)
                self._noted.pop(instance.id, None)
                gone = {member for member in self._addresses if member.partition("/")[0] == instance.id}
                self._addresses = {member: at for member, at in self._addresses.items() if member not in gone}
        self._board.deploy(
            self._fleets[i.fleet].deployed(i, self._held.get(i.id, {})) for i in instances if self._is_met(i)
        )

    def _meet(self, instance: Instance) -> None:
        if instance.fleet not in self._fleets:  # left alone until somebody says what it is
            self.keep(FleetOrder(instance.fleet, (), acts=False))
        fleet = self._fleets[instance.fleet]
        if not fleet.knows(instance.id):
            try:
                fleet.learn(instance, self._stores.instances.template(instance.id))
            except UnplaceableError as error:  # of another release of Medley
                kind = EventKind.RELEASE if instance.state == InstanceState.REQUESTED else EventKind.BROKE
                self._apply(instance, Event(kind, str(error)))

    def _is_met(self, instance: Instance) -> bool:
        return self._fleets[instance.fleet].knows(instance.id)

    def _learn(self) -> None:
        """Apply what the nodes report, and what takes too long."""
        self._warn()
        for name, event in self._board.events(self._monotonic()):
            if name in self._known:
                self._apply(self._known[name], event)
        self._blame()  # after the events: what was reported in between has failed its instance already
        now = self._stores.executor.clock()
        for instance in tuple(self._known.values()):
            queued = [at for node in instance.nodes if (at := self._clouds.queued_at.get(node.id)) is not None]
            if (late := overdue(instance, self._settings.patience, now, max(queued, default=None))) is not None:
                self._apply(instance, late)

    def _warn(self) -> None:
        """Tell of nodes that will be taken, once each: the next one is better had elsewhere."""
        announced = self._board.announced()
        for instance in self._known.values():
            kept = self._fleets[instance.fleet]
            offers = {offer.key: offer for offer in kept.order.supply.offers}
            for held in self._held.get(instance.id, {}).values():
                if held.name in announced.keys() - self._warned and held.offer in offers:
                    kept.order = kept.order.without(held.offer)
                    self.observer.taken(instance.fleet, offers[held.offer], announced[held.name])
        self._warned = frozenset(announced)

    def _blame(self) -> None:
        """An offer whose node is another machine than it says was not kept: the next node is had elsewhere."""
        others = self._board.other_machines()
        for instance in self._known.values():
            kept = self._fleets[instance.fleet]
            offers = {offer.key: offer for offer in kept.order.supply.offers}
            for held in self._held.get(instance.id, {}).values():
                if held.name in others.keys() - self._blamed and held.offer in offers:
                    kept.order = kept.order.without(held.offer)
                    error = GiveUpError(f"{held.name}: {others[held.name]}")
                    self.observer.refused(instance.fleet, offers[held.offer], error)
        self._blamed = frozenset(others)

    def _apply(self, instance: Instance, event: Event) -> None:
        step = self._stores.instances.apply(instance.id, event, self._stores.executor.clock())
        if isinstance(step, Transition):
            self._known[instance.id] = step.after
            self._note(instance)

    def _note(self, instance: Instance) -> None:
        """Every step of its life since the last time: others take some, such as who compares rows with clouds."""
        for step in self._stores.instances.history(instance.id):
            if step.version > self._noted.get(instance.id, 0):
                self._noted[instance.id] = step.version
                self._fleets[instance.fleet].note(instance, step, self._monotonic())
                self.observer.on_transition(instance.fleet, step)

    def _repair(self) -> None:
        if self._monotonic() - self._repaired_s >= self._settings.repair_s:
            self._repaired_s = self._monotonic()
            self._clouds.begin_comparing(self._settings.in_flight)
            self._stores.nodes.heard_of(self._board.loads(), self._stores.executor.clock())

    def _move(self) -> None:
        now = self._stores.executor.clock()
        for name, fleet in self._fleets.items():
            order, own = fleet.order, [i for i in self._known.values() if i.fleet == name and self._is_met(i)]
            if not order.acts or order.is_met(own):
                continue
            targets, running = order.wanted, [fleet.running(i, self._held.get(i.id, {})) for i in own]
            past = self._past(fleet, {w.plan_id for w in order.wanted})
            moves = next_moves(targets, running, order.supply, order.limits, past, now)
            for launch in moves.launch:
                if order.starts:
                    self._request(order, launch.id, next(w for w in order.wanted if w.column == launch.target.column))
            for drain in moves.drain:
                self._apply(self._known[drain.instance_id], Event(EventKind.DRAIN, drain.reason))
            for release in moves.release:
                self._apply(self._known[release.instance_id], Event(EventKind.RELEASE, release.reason))

    def _past(self, fleet: KeptFleet, plans: Iterable[str]) -> Past:
        now, instances = self._stores.executor.clock(), self._stores.instances
        since = now - max(_PAST, fleet.order.limits.disruption.window)
        used = frozenset(name for plan in plans for name in instances.ids_of_plan(plan))
        waits = fleet.not_before((w.column for w in fleet.order.wanted), now, self._monotonic())
        name = fleet.order.name
        return Past(instances.drained_since(name, since), self._stores.nodes.rented_since(name, since), used, waits)

    def _request(self, order: FleetOrder, name: str, w: Target) -> None:
        new = Instance(name, w.template.id, w.zone, w.market, InstanceState.REQUESTED, (), fleet=order.name)
        made = self._stores.instances.request(new, w.template, w.plan_id, self._stores.executor.clock())
        self._known[made.id] = made
        self._meet(made)

    def _act(self) -> None:
        """Have clouds do what follows from the states of instances; take note of what they answered before."""
        for fleet, done in self._clouds.answers():
            self._heard(fleet, done)
        for instance in self._known.values():
            fleet_of_it = self._fleets[instance.fleet]
            if instance.state in _RENTING and fleet_of_it.order.acts:
                self._clouds.rent(instance, fleet_of_it)
            elif instance.state in _OUT:
                self._clouds.give_back(instance)

    def _heard(self, fleet: str, done: Provisioned) -> None:
        kept = self._fleets[fleet]
        offers = {offer.key: offer for offer in kept.order.supply.offers}
        cloud = done.instance.zone.partition("/")[0]
        if done.fault is not None:
            self.observer.faulty(cloud, str(done.fault))
        elif done.rented or done.refused:
            self.observer.faulty(cloud, "")
        # Of an offer that gave some nodes of a gang and refused others, the refusal is the newer word.
        for key in done.rented:
            if key in offers:
                self.observer.rented(fleet, offers[key])
        for refused in done.refused:
            _log.warning("%s is refused: %s", refused.offer, refused.error)
            kept.order = kept.order.without(refused.offer)
            if refused.offer in offers:
                self.observer.refused(fleet, offers[refused.offer], refused.error)

    def _members(self, instance: Instance) -> dict[str, Address]:
        """Executor → where its scheduler is, or was last; empty while one of them was never there."""
        fleet, found = self._fleets[instance.fleet], dict[str, Address]()
        if not fleet.knows(instance.id):
            return {}
        gang = fleet.gang(instance.id)
        for executor in gang.executors:
            member, said = gang.member(instance.id, executor.id), self._board.scheduler(instance.id, executor.id)
            if said is not None:
                self._addresses[member] = Address(said.endpoint, said.public_key)
            if member in self._addresses:
                found[executor.id] = self._addresses[member]
        return found if len(found) == len(gang.executors) else {}

    def _tell(self) -> None:
        """Gateways of what is ready."""
        ready: Ready = []
        for instance in self._known.values():
            wanted, members = self._fleets[instance.fleet].order.of(instance), self._members(instance)
            if instance.state == InstanceState.READY and wanted is not None and members:
                ready.append((instance.id, wanted, members))
        now_s = self._monotonic()
        if ready != self._published or now_s - self._published_s > self._settings.repair_s:
            self._published, self._published_s = ready, now_s
            try:
                self._publish(ready)
            except OSError as error:
                _log.error("the routing table cannot be written, gateways serve by the last one: %s", error)
