"""What the contract's tests need of a cloud beyond its port: to restart the adapter and to break what it holds."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import psutil

from control.access.secret import Secret
from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kind import LocalKind
from control.cloud.node import NodeRequest
from control.cloud.port import Cloud
from templates_lib.values.offer import Market
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.db.processes import lives, wait_until
from tests.control.lifecycle.worlds import START

STOCK = 3
FOREVER = (sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()")
KINDS = tuple(LocalKind(name, 0.5, 128, STOCK) for name in ("small", "large"))


class Harness(Protocol):
    small: str
    large: str
    """Instance types, of each of which STOCK nodes can exist at once."""

    def request(self, name: str = ..., instance_type: str = ..., *, tags: Mapping[str, str] = ...) -> NodeRequest:
        """Of a small node, unless it says otherwise."""
        ...

    def cloud(self) -> Cloud:
        """The adapter of a control plane that has just been started."""
        ...

    def crash(self, name: str) -> None:
        """End what a node was started as, and leave something of it."""
        ...

    def vanish(self, name: str) -> None:
        """Take the node away whole, without the adapter."""
        ...


class FakeHarness:
    small, large = "small", "large"

    def __init__(self) -> None:
        self._cloud = FakeCloud("fake", {"small": STOCK, "large": STOCK})

    def cloud(self) -> Cloud:
        return self._cloud

    def request(self, *values: str, **named: Any) -> NodeRequest:
        return request(*values, **named)

    def crash(self, name: str) -> None:
        self._cloud.crash(name)

    def vanish(self, name: str) -> None:
        self._cloud.preempt(name)


class ProcessHarness:
    """Of a cloud whose nodes are processes of this machine."""

    small, large = "small", "large"

    def cloud(self) -> Cloud:
        raise NotImplementedError

    def pid(self, provider_id: str) -> int:
        """Of the process that a node was started as."""
        raise NotImplementedError

    def request(self, *values: str, **named: Any) -> NodeRequest:
        return request(*values, **named)

    def crash(self, name: str) -> None:
        subprocess.Popen(("sleep", "600"), env=psutil.Process(self.leader(name)).environ(), start_new_session=True)
        self.vanish(name)

    def vanish(self, name: str) -> None:
        leader = self.leader(name)
        os.kill(leader, signal.SIGKILL)
        wait_until(lambda: not lives(leader))

    def leader(self, name: str) -> int:
        (node,) = [node for node in self.cloud().list({}, START) if node.name == name]
        return self.pid(node.provider_id)

    def end(self) -> None:
        for node in self.cloud().list({}, START):
            self.cloud().terminate(node.name, START)
        assert self.cloud().list({}, START) == ()


class LocalHarness(ProcessHarness):
    def __init__(self, home: Path) -> None:
        self.home = home

    def cloud(self) -> LocalCloud:
        return LocalCloud(self.home, KINDS)

    def pid(self, provider_id: str) -> int:
        return int(provider_id.split("-")[1])


def request(
    name: str = "medley-i1-0-0",
    instance_type: str = "small",
    tags: Mapping[str, str] | None = None,
    command: tuple[str, ...] = FOREVER,
    secret: str = "hidden",  # noqa: S107
) -> NodeRequest:
    return NodeRequest(
        name=name,
        region="here",
        zone="here",
        instance_type=instance_type,
        market=Market.ON_DEMAND,
        tags={"medley-owner": "me"} if tags is None else tags,
        command=command,
        environment={"MEDLEY_SERVER": "tcp://127.0.0.1:1"},
        secrets={"MEDLEY_BOOTSTRAP_TOKEN": Secret(secret)},
    )
