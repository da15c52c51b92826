"""A cloud in memory: it does as a vendor's would, forgets nothing it was asked, and fails on demand."""

import itertools
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto

from control.cloud.errors import GiveUpError, StockOutError
from control.cloud.node import CloudNode, CloudNodeState, NodeRequest
from control.cloud.vendor_errors import VENDOR_ERRORS
from templates_lib.values.nearest_name import nearest_name
from tests.control.cloud.vendor_words import vendor_line


@dataclass(frozen=True, slots=True)
class Call:
    """`subject` is the node's name, of `list` the tags as text."""

    method: str
    subject: str
    at: datetime


class Effect(Enum):
    """What a call that fails has done nevertheless."""

    NONE = auto()
    DONE = auto()
    """The reply is lost."""
    LATER = auto()
    """It is on its way: `FakeCloud.settle` lets it arrive."""
    QUEUED = auto()
    """The same, and it is listed as what waits for its turn."""


class FakeCloud:
    """`stock` is how many nodes of each instance type can exist at once. Thread-safe."""

    def __init__(self, name: str, stock: Mapping[str, int]) -> None:
        self.name = name
        self.calls: list[Call] = []
        self.ends_slowly = False
        """Whether nodes that are terminated are listed as such until `settle`."""
        self.failures: dict[str, str] = {}
        """Node → what its log says of why it does not come up."""
        self._stock = dict(stock)
        self._nodes: dict[str, tuple[NodeRequest, CloudNode]] = {}
        self._faults: dict[str, deque[tuple[Exception, Effect]]] = {
            "create": deque(),
            "list": deque(),
            "terminate": deque(),
            "failure": deque(),
        }
        self._on_the_way: list[NodeRequest] = []
        self._numbers = itertools.count(1)
        self._turn = threading.RLock()

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        with self._turn:
            fault = self._called("create", request.name, now)
            if fault is not None:
                error, effect = fault
                if effect is Effect.DONE:
                    self._rent(request)
                elif effect is not Effect.NONE:
                    self._on_the_way.append(request)
                if effect is Effect.QUEUED:
                    queued = CloudNode(request.name, "", CloudNodeState.QUEUED, dict(request.tags))
                    self._nodes[request.name] = request, queued
                raise error
            return self._rent(request)

    def list(self, tags: Mapping[str, str], now: datetime) -> tuple[CloudNode, ...]:
        with self._turn:
            fault = self._called("list", ",".join(f"{key}={value}" for key, value in sorted(tags.items())), now)
            if fault is not None:
                raise fault[0]
            return tuple(node for _, (_, node) in sorted(self._nodes.items()) if tags.items() <= node.tags.items())

    def terminate(self, name: str, now: datetime) -> None:
        with self._turn:
            fault = self._called("terminate", name, now)
            if fault is None or fault[1] is Effect.DONE:
                self._end(name)
            if fault is not None:
                raise fault[0]

    def failure(self, name: str, now: datetime) -> str:
        with self._turn:
            fault = self._called("failure", name, now)
            if fault is not None:
                raise fault[0]
            return self.failures.get(name, "")

    def fail_next(self, method: str, error: Exception, effect: Effect = Effect.NONE) -> None:
        """The next call of `method` raises `error`; several are taken in turn."""
        self._faults[method].append((error, effect))

    def refuse_next(self, method: str, code: str) -> None:
        """The next call of `method` fails as that vendor's does whose code it is. KeyError for a code of nobody's."""
        line = vendor_line(code)
        vendor_error = next(each for each in VENDOR_ERRORS if each.code == code)
        self.fail_next(method, vendor_error.error(self.name, line))

    def settle(self) -> None:
        """Let what is on its way arrive, and what is on its way out be gone."""
        with self._turn:
            ending = [name for name, (_, node) in self._nodes.items() if node.state is CloudNodeState.TERMINATING]
            for name in ending:
                del self._nodes[name]
            while self._on_the_way:
                request = self._on_the_way.pop(0)
                if request.name in self._nodes and self._nodes[request.name][1].state is CloudNodeState.QUEUED:
                    del self._nodes[request.name]
                self._rent(request)

    def preempt(self, name: str) -> None:
        """Take a node back, as a spot market does. KeyError when there is none."""
        with self._turn:
            del self._nodes[name]

    def crash(self, name: str) -> None:
        """End what runs on a node; it goes on costing money. KeyError when there is none."""
        with self._turn:
            request, node = self._nodes[name]
            self._nodes[name] = request, replace(node, state=CloudNodeState.BROKEN)

    def request(self, name: str) -> NodeRequest:
        """What a node was created with. KeyError when there is none."""
        return self._nodes[name][0]

    def _called(self, method: str, subject: str, now: datetime) -> tuple[Exception, Effect] | None:
        self.calls.append(Call(method, subject, now))
        return self._faults[method].popleft() if self._faults[method] else None

    def _end(self, name: str) -> None:
        if self.ends_slowly and name in self._nodes:
            request, node = self._nodes[name]
            self._nodes[name] = request, replace(node, state=CloudNodeState.TERMINATING)
        else:
            self._nodes.pop(name, None)

    def _rent(self, request: NodeRequest) -> CloudNode:
        if request.name in self._nodes:
            asked, node = self._nodes[request.name]
            if (asked.zone, asked.instance_type, asked.market) != (request.zone, request.instance_type, request.market):
                raise GiveUpError(f"{self.name}: {request.name} exists and is a {asked.instance_type} in {asked.zone}")
            return node
        if request.instance_type not in self._stock:
            hint = nearest_name(request.instance_type, self._stock)
            raise GiveUpError(f"{self.name}: unknown instance type {request.instance_type!r}; {hint}")
        held = sum(asked.instance_type == request.instance_type for asked, _ in self._nodes.values())
        if held >= self._stock[request.instance_type]:
            raise StockOutError(f"{self.name}: no more {request.instance_type} in {request.zone}")
        provider_id = f"{self.name}-{next(self._numbers)}"
        node = CloudNode(request.name, provider_id, CloudNodeState.RUNNING, dict(request.tags))
        self._nodes[request.name] = request, node
        return node
