"""A cloud and its market made of logs: behind the port of a cloud, and as offers at any time."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import floor, inf
from random import Random

from control.cloud.errors import GiveUpError, StockOutError
from control.cloud.node import CloudNode, CloudNodeState, NodeRequest
from control.simulator.offer_log import OfferLog, SharedLog
from templates_lib.values.offer import Market, Offer, zone_id

_HOUR_S = 3600.0
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class NodeLife:
    """The life of a node that was given. Times are seconds from the world's start."""

    node: CloudNode
    offer: Offer
    from_s: float
    until_s: float
    """inf: it lives."""
    disk_usd_per_hour: float = 0.0


class LogCloud:
    """Nodes are there at once and gone at once. When a log says that fewer spot nodes can be held than are, seeded ones
    of them are taken back at that moment; others stay, and no more are given. Thread-safe; `now` must not go back."""

    def __init__(
        self,
        name: str,
        logs: Iterable[OfferLog],
        start: datetime,
        seed: int,
        shared: Iterable[SharedLog] = (),
    ) -> None:
        self.name = name
        self.taken: list[tuple[float, str]] = []
        """(seconds, name) of nodes that the market took back."""
        self._logs = {log.offer.key: log for log in logs if log.offer.cloud == name}
        # The members at other clouds are none of its business.
        self._shared = [
            replace(log, members={key: weight for key, weight in log.members.items() if key in self._logs})
            for log in shared
        ]
        self._start, self._now_s = start, -inf
        self._chance = Random(seed)  # noqa: S311 - a world that can be made again
        self._held: dict[str, NodeLife] = {}
        self._by_offer: Counter[str] = Counter()
        self._ended: list[NodeLife] = []
        self._ended_usd = 0.0
        self._loss_s: float | None = None
        """When nodes will be taken; None: it is to be found."""
        self._turn = threading.RLock()

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        with self._turn:
            self._pass(now)
            if request.name in self._held:
                return self._held[request.name].node
            key = f"{zone_id(self.name, request.zone)}/{request.instance_type}/{request.market.value}"
            log = self._logs.get(key)
            if log is None:
                raise GiveUpError(f"{self.name}: {request.zone} has no {request.instance_type}, {request.market.value}")
            if self._left(key) < 1:
                raise StockOutError(f"{self.name}: no more {request.instance_type} in {request.zone}")
            node = _node(request)
            self._held[request.name] = NodeLife(node, log.offer, self._now_s, inf, request.disk_usd_per_hour)
            self._by_offer[key] += 1
            self._loss_s = None
            return node

    def adopt(self, request: NodeRequest, from_s: float) -> None:
        """A node of an offer of its logs that is there since `from_s`, before the world began, whatever its stock."""
        with self._turn:
            key = f"{zone_id(self.name, request.zone)}/{request.instance_type}/{request.market.value}"
            node = _node(request)
            self._held[request.name] = NodeLife(node, self._logs[key].offer, from_s, inf, request.disk_usd_per_hour)
            self._by_offer[key] += 1
            self._loss_s = None

    def list(self, tags: Mapping[str, str], now: datetime) -> tuple[CloudNode, ...]:
        with self._turn:
            self._pass(now)
            found = (held.node for _, held in sorted(self._held.items()))
            return tuple(node for node in found if tags.items() <= node.tags.items())

    def terminate(self, name: str, now: datetime) -> None:
        with self._turn:
            self._pass(now)
            if name in self._held:
                self._end(name, self._now_s)

    def offers(self, now: datetime) -> tuple[Offer, ...]:
        """What is sold, at today's prices; as with real clouds nobody says how much of it there is."""
        with self._turn:
            self._pass(now)
        at_s, seen = self._seconds(now), now.isoformat()
        return tuple(
            replace(log.offer, usd_per_hour=log.usd_per_hour.at(at_s), observed_at=seen) for log in self._logs.values()
        )

    def _left(self, key: str) -> float:
        """Nodes of an offer that can be had beside those held; inf: as many as one likes."""
        own = self._logs[key].nodes.at(self._now_s) - self._by_offer[key]
        bounds = (
            (log.limit.at(self._now_s) - self._used(log)) / log.members[key]
            for log in self._shared
            if log.members.get(key)
        )
        least = min([own, *bounds])
        return max(least if least == inf else float(floor(least + _SLACK)), 0.0)

    def most(self, key: str) -> float:
        """Nodes of an offer that its own log lets be held at once, as of the last call."""
        return self._logs[key].nodes.at(self._now_s)

    def has(self, name: str) -> bool:
        """Whether a node of that name lives, as of the last call."""
        return name in self._held

    def held(self, key: str) -> int:
        """Nodes of an offer that are held."""
        return self._by_offer[key]

    def next_loss_s(self) -> float:
        """When nodes that are held now will be taken back, if nothing changes until then; inf: never."""
        with self._turn:
            if self._loss_s is None:
                self._loss_s = self._find_loss()
            return self._loss_s

    def lives(self) -> tuple[NodeLife, ...]:
        """Lives of all nodes that were ever given, by name."""
        with self._turn:
            return tuple(sorted([*self._ended, *self._held.values()], key=lambda life: (life.from_s, life.node.name)))

    def spent_between_usd(self, from_s: float, until_s: float) -> float:
        """What was paid for all nodes, those that are gone among them."""
        with self._turn:
            return sum(self.cost_usd(life, until_s, from_s) for life in self.lives())

    def cost_usd(self, life: NodeLife, until_s: float, since_s: float = 0.0) -> float:
        """Cost of a node and its disk in [since, until), as far as it lived then: by default from the world's start
        on."""
        from_s, to_s = max(life.from_s, since_s), min(life.until_s, until_s)
        if to_s <= from_s:
            return 0.0
        rent = self._logs[life.offer.key].usd_per_hour.integral(from_s, to_s)
        return (rent + life.disk_usd_per_hour * (to_s - from_s)) / _HOUR_S

    def spent_usd(self, now: datetime) -> float:
        """Since the start: every node by the second, at its offer's price of that second, and its disk."""
        with self._turn:
            self._pass(now)
            return self._ended_usd + sum(self.cost_usd(life, self._now_s) for life in self._held.values())

    def _pass(self, now: datetime) -> None:
        until_s = self._seconds(now)
        while (loss_s := self.next_loss_s()) <= until_s:
            self._now_s = loss_s
            self._take_back(loss_s)
            self._loss_s = None
        self._now_s = max(self._now_s, until_s)

    def _find_loss(self) -> float:
        own = (
            next((time for time, nodes in self._logs[key].nodes.changes(self._now_s, inf) if nodes < held), inf)
            for key, held in self._by_offer.items()
            if held and _is_taken(self._logs[key])
        )
        together = (
            next((time for time, limit in log.limit.changes(self._now_s, inf) if limit < self._used(log) - _SLACK), inf)
            for log in self._shared
            if any(self._by_offer[key] and _is_taken(self._logs[key]) for key in log.members)
        )
        return min((*own, *together), default=inf)

    def _take_back(self, at_s: float) -> None:
        for key in sorted(self._by_offer):
            if _is_taken(self._logs[key]):
                self._take({key: 1.0}, self._by_offer[key] - self._logs[key].nodes.at(at_s), at_s)
        for log in self._shared:
            spot = {key: weight for key, weight in log.members.items() if _is_taken(self._logs[key])}
            self._take(spot, self._used(log) - log.limit.at(at_s), at_s)

    def _take(self, members: Mapping[str, float], excess: float, at_s: float) -> None:
        """Nodes of `members` (offer key → weight) until `excess` of them is gone."""
        there = sorted(name for name, life in self._held.items() if members.get(life.offer.key))
        self._chance.shuffle(there)
        while there and excess > _SLACK:
            name = there.pop()
            excess -= members[self._held[name].offer.key]
            self._end(name, at_s)
            self.taken.append((at_s, name))

    def _used(self, log: SharedLog) -> float:
        return sum(weight * self._by_offer[key] for key, weight in log.members.items())

    def _end(self, name: str, at_s: float) -> None:
        life = self._held.pop(name)
        self._by_offer[life.offer.key] -= 1
        self._loss_s = None
        ended = replace(life, until_s=at_s)
        self._ended.append(ended)
        self._ended_usd += self.cost_usd(ended, at_s)

    def _seconds(self, now: datetime) -> float:
        return (now - self._start) / timedelta(seconds=1)


def _node(request: NodeRequest) -> CloudNode:
    """Its number at the vendor does not depend on which of several calls side by side comes first: snapshots would,
    and with them the names of instances and what is drawn by these."""
    return CloudNode(request.name, f"log-{request.name}", CloudNodeState.RUNNING, dict(request.tags))


def _is_taken(log: OfferLog) -> bool:
    """Whether the market takes nodes of it back."""
    return log.offer.market is Market.SPOT
