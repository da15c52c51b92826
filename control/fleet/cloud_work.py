"""Work that a keeper has clouds do, beside its rounds: one call at a time for an instance."""

import logging
import queue
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from control.diff.target import Target
from control.executor.node_start import NodeStart
from control.executor.provision import MENDED_S, NodePlace, Provisioned, provision
from control.executor.recover import recover
from control.executor.wind_down import wind_down
from control.fleet.effects import Effects
from control.fleet.kept_fleet import KeptFleet
from control.fleet.stores import FleetStores
from control.hub.gang import Gang
from templates_lib.values.instance import Instance
from templates_lib.values.offer import Offer

_log = logging.getLogger(__name__)

_AGAIN_S = 1.0
"""Pause after a cloud takes its time over an end, or does not answer."""


class CloudWork:
    """Calls to clouds under way, by instance. The keeper's thread calls it; the work is done in threads of
    `effects`."""

    def __init__(self, stores: FleetStores, effects: Effects, monotonic: Callable[[], float]) -> None:
        self._stores = stores
        self._effects = effects
        self._monotonic = monotonic
        self._again_s: dict[str, float] = {}
        """Instance → when a cloud may be asked for it again."""
        self._tried_s: dict[str, float] = {}
        """Cloud where a fault of our own stops launches → when one may be tried again."""
        self.queued_at: dict[str, datetime] = {}
        """Node → when its launch was last seen to wait for its turn."""
        self._answers: queue.SimpleQueue[tuple[str, Provisioned]] = queue.SimpleQueue()

    def rent(self, instance: Instance, fleet: KeptFleet) -> None:
        """The nodes that it lacks."""
        if self._is_due(instance) and self._may_launch(instance.zone.partition("/")[0]):
            self._effects.begin(instance.id, lambda: self._provision(instance, fleet))

    def give_back(self, instance: Instance) -> None:
        """All its nodes."""
        if self._is_due(instance):
            self._effects.begin(instance.id, lambda: self._wind_down(instance.id))

    def begin_comparing(self, in_flight: timedelta) -> None:
        self._effects.begin("compare with the clouds", lambda: self.compare(in_flight))

    def compare(self, in_flight: timedelta) -> None:
        """Rows with what the clouds list, here and now (`recover`)."""
        stores = self._stores
        recovered = recover(stores.instances, stores.nodes, stores.executor, in_flight)
        self.queued_at |= dict.fromkeys(recovered.queued, stores.executor.clock())
        for what, why in recovered.failed.items():
            _log.warning("%s cannot be mended now: %s", what, why)

    def answers(self) -> Iterator[tuple[str, Provisioned]]:
        """Fleet and what became of renting for it, since the last time."""
        while not self._answers.empty():
            fleet, done = self._answers.get()
            cloud = done.instance.zone.partition("/")[0]
            if done.fault is not None:
                self._tried_s[cloud] = self._monotonic() + MENDED_S
            elif done.rented or done.refused:  # it was asked, and has answered
                self._tried_s.pop(cloud, None)
            if done.waiting:
                wait_s = max(error.retry_after_s for error in done.waiting.values())
                self._again_s[done.instance.id] = self._monotonic() + wait_s
            yield fleet, done

    def forget(self, instance: Instance) -> None:
        self._again_s.pop(instance.id, None)
        for node in instance.nodes:
            self.queued_at.pop(node.id, None)

    def wait(self, timeout_s: float) -> None:
        """Wait until nothing is under way, or time is up."""
        self._effects.wait(timeout_s)

    def end(self, instances: Iterable[Instance], timeout_s: float) -> dict[str, str]:
        """Give back all nodes of all of them, and wait for it, twice `timeout_s` at most; node, or instance, → why it
        may still be billed."""
        left: dict[str, str] = {}
        names = [instance.id for instance in instances]
        under_way = set(names)
        for _ in range(2):  # a node that is just being rented is there first, and given back then
            names = [name for name in names if not self._begin_end(name, left, under_way)]
            self._effects.wait(timeout_s)
        still = tuple(under_way)  # at once: what is under way may end meanwhile
        return left | dict.fromkeys(still, "a call to its cloud is still under way")

    def _begin_end(self, name: str, left: dict[str, str], under_way: set[str]) -> bool:
        def end() -> None:
            left.update(self._ended(name))
            under_way.discard(name)

        return self._effects.begin(name, end)

    def _may_launch(self, cloud: str) -> bool:
        """Tell whether a launch there may be tried. While a fault of our own stops them, one is from time to time, to
        see whether it was mended."""
        due_s = self._tried_s.get(cloud)
        if due_s is None:
            return True
        if self._monotonic() < due_s:
            return False
        self._tried_s[cloud] = self._monotonic() + MENDED_S
        return True

    def _is_due(self, instance: Instance) -> bool:
        return self._monotonic() >= self._again_s.get(instance.id, 0.0)

    def _provision(self, instance: Instance, fleet: KeptFleet) -> None:
        wanted, start = fleet.order.of(instance), fleet.order.starts.get(instance.zone.partition("/")[0])
        if wanted is None or start is None:
            return
        gang = fleet.gang(instance.id)
        engines = start.engines & {executor.engine for executor in gang.executors}
        disk_gib = fleet.order.disk_gib.get(wanted.template.id, 0)
        disk_usd = fleet.order.disks.usd_per_hour(instance.zone, disk_gib)
        start = replace(start, engines=engines, disk_gib=disk_gib, disk_usd_per_hour=disk_usd)
        where = places(wanted, gang, fleet.order.supply.offers, start)
        stores = self._stores
        done = provision(stores.instances, stores.nodes, stores.executor, instance.id, where, fleet.allowance)
        self._answers.put((instance.fleet, done))

    def _wind_down(self, name: str) -> None:
        if self._ended(name):
            self._again_s[name] = self._monotonic() + _AGAIN_S

    def _ended(self, name: str) -> dict[str, str]:
        try:
            return wind_down(self._stores.instances, self._stores.executor, name, "it does not serve any more").left
        except ValueError as error:
            return {name: str(error)}


def places(wanted: Target, gang: Gang, offers: Iterable[Offer], start: NodeStart) -> list[NodePlace]:
    """Return where each node of the gang may be rented: the offers of its configuration in the instance's zone,
    cheapest first."""
    sold = [offer for offer in offers if (offer.zone_id, offer.market) == (wanted.zone, wanted.market)]
    sold.sort(key=lambda offer: (offer.usd_per_hour, offer.key))
    return [NodePlace(tuple(offer for offer in sold if offer.node_config == config), start) for config in gang.configs]
