"""The tensor sidecar of a node, which executors of components put their rows into: one process, beside theirs."""

import os
import secrets
import sys
from collections.abc import Callable

from agents.node.child import Child
from agents.node.settings import NodeSettings
from agents.scheduler.private_network import leaves_network


class SidecarWork:
    """One life of it. Make it on a running loop. `died` is called once, with why."""

    def __init__(self, name: str, settings: NodeSettings, died: Callable[[str], None]) -> None:
        self._name, self._settings, self._died = name, settings, died
        self._child: Child | None = None
        self.is_up = False
        """Executors find it by its name."""

    async def start(self) -> None:
        """Return once it serves, or has died."""
        settings = self._settings
        command = [sys.executable, "-m", "agents.tensors", "--name", self._name, "--interface", settings.interface]
        command += ["--slab-mib", str(settings.slab_mib), "--owner", str(os.getpid())]
        if leaves_network(settings.network, settings.network, settings.interface):
            command.append("--encrypt")
        try:
            self._child = await Child.start("tensors", command, self._ended)
        except OSError as error:
            self._ended(str(error))
            return
        self.is_up = bool(await self._child.first_line())

    @property
    def last_words(self) -> tuple[str, ...]:
        return () if self._child is None else self._child.last_words

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop(self._settings.grace_s)

    def _ended(self, reason: str) -> None:
        self.is_up = False
        self._died(reason)


def sidecar_name() -> str:
    """Return a name that no other node of this machine has."""
    return f"medley-tensors-{secrets.token_hex(8)}"
