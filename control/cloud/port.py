"""The port of a cloud: what Medley needs, and what it may rely on."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, runtime_checkable

from control.cloud.node import CloudNode, NodeRequest


class Cloud(Protocol):
    """An adapter. Methods are called from several threads, may take long, and raise only `CloudError`.

    `now` is for what depends on time, such as the age of a cached reply; no adapter asks the clock for it.
    """

    @property
    def name(self) -> str:
        """Name of the cloud in offers: `aws`, `local`."""
        ...

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        """Rent the node, or return the one that exists under its name: to ask twice does not rent twice.

        Returns once the cloud has accepted it; it may be starting still. GiveUpError when another machine has the name.
        """
        ...

    def list(self, tags: Mapping[str, str], now: datetime) -> tuple[CloudNode, ...]:
        """Every node that exists and has all of `tags`, by name: the truth about what is billed. With them those whose
        launch is queued.

        A cloud may be slow to list what it has just created; it lists what is being terminated until it is gone.
        """
        ...

    def terminate(self, name: str, now: datetime) -> None:
        """End the node, with all that runs on it. A node that does not exist is ended already. One that does not exist
        is ended already.

        It is gone when `list` does not name it any more.
        """
        ...


@runtime_checkable
class LogReader(Protocol):
    """An adapter whose `list` cannot tell that what a node was started with has failed, and whose nodes' logs can."""

    def failure(self, name: str, now: datetime) -> str:
        """Return why a node that runs will not come up by itself, in words of its log; empty: nothing says so. Raises
        CloudError."""
        ...


@runtime_checkable
class PrintReader(Protocol):
    """An adapter that can read what a node's command has printed, also once the command has ended."""

    def printed(self, name: str, lines: int) -> str:
        """Return the last `lines` lines that the node's set-up and command have printed; empty where there are none
        yet, or the node is out of reach. Raises CloudError."""
        ...
