"""A cloud and its market made of logs: behind the port of a cloud, and as offers at any time."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from control.cloud.errors import GiveUpError, StockOutError
from control.cloud.node import CloudNode, CloudNodeState, NodeRequest
from control.simulator.offer_log import OfferLog
from templates_lib.offer import Offer, zone_id

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Held:
    node: CloudNode
    offer: str
    since_s: float


class LogCloud:
    """Nodes are there at once and gone at once. When a log says that fewer can be held than are, seeded ones of them
    are taken back at that moment. Not thread-safe; `now` must not go back."""

    def __init__(self, name: str, logs: Iterable[OfferLog], start: datetime, seed: int) -> None:
        self.name = name
        self.taken: list[tuple[float, str]] = []
        """(seconds, name) of nodes that the market took back."""
        self._logs = {log.offer.key: log for log in logs if log.offer.cloud == name}
        self._start, self._now_s = start, 0.0
        self._chance = Random(seed)  # noqa: S311 - a world that can be made again
        self._held: dict[str, _Held] = {}
        self._by_offer: Counter[str] = Counter()
        self._spent_usd = 0.0
        self._made = 0

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        self._pass(now)
        if request.name in self._held:
            return self._held[request.name].node
        key = f"{zone_id(self.name, request.zone)}/{request.instance_type}/{request.market.value}"
        log = self._logs.get(key)
        if log is None:
            raise GiveUpError(f"{self.name}: {request.zone} has no {request.instance_type}, {request.market.value}")
        if self._by_offer[key] >= log.nodes.at(self._now_s):
            raise StockOutError(f"{self.name}: no more {request.instance_type} in {request.zone}")
        self._made += 1
        node = CloudNode(request.name, f"{self.name}-{self._made}", CloudNodeState.RUNNING, dict(request.tags))
        self._held[request.name] = _Held(node, key, self._now_s)
        self._by_offer[key] += 1
        return node

    def list(self, tags: Mapping[str, str], now: datetime) -> tuple[CloudNode, ...]:
        self._pass(now)
        found = (held.node for _, held in sorted(self._held.items()))
        return tuple(node for node in found if tags.items() <= node.tags.items())

    def terminate(self, name: str, now: datetime) -> None:
        self._pass(now)
        if name in self._held:
            self._end(name, self._now_s)

    def offers(self, now: datetime) -> tuple[Offer, ...]:
        """What is sold, at today's prices; as with real clouds nobody says how much of it there is."""
        at_s = (now - self._start).total_seconds()
        seen = now.isoformat()
        return tuple(
            replace(log.offer, usd_per_hour=log.usd_per_hour.at(at_s), observed_at=seen) for log in self._logs.values()
        )

    def spent_usd(self, now: datetime) -> float:
        """Since the start: every node by the second, at its offer's price of that second."""
        self._pass(now)
        return self._spent_usd + sum(self._cost_usd(held, self._now_s) for held in self._held.values())

    def _pass(self, now: datetime) -> None:
        until_s = (now - self._start) / timedelta(seconds=1)
        losses = sorted(
            (time, key)
            for key, held in self._by_offer.items()
            if held
            for time, nodes in self._logs[key].nodes.changes(self._now_s, until_s)
            if nodes < held
        )
        for time, key in losses:
            self._take_back(key, time)
        self._now_s = max(self._now_s, until_s)

    def _take_back(self, key: str, at_s: float) -> None:
        there = sorted(name for name, held in self._held.items() if held.offer == key)
        for name in self._chance.sample(there, max(len(there) - int(self._logs[key].nodes.at(at_s)), 0)):
            self._end(name, at_s)
            self.taken.append((at_s, name))

    def _end(self, name: str, at_s: float) -> None:
        held = self._held.pop(name)
        self._by_offer[held.offer] -= 1
        self._spent_usd += self._cost_usd(held, at_s)

    def _cost_usd(self, held: _Held, until_s: float) -> float:
        return self._logs[held.offer].usd_per_hour.integral(held.since_s, until_s) / _HOUR_S
