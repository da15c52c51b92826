"""The tensor sidecar of a node, which executors of components put their rows into: one process, beside theirs."""

import asyncio
import os
import secrets
import sys
from collections.abc import Callable

from agents.node.child import Child
from agents.node.settings import NodeSettings
from agents.scheduler.private_network import leaves_network

_START_S = 120.0
"""The longest that it may take to serve: it first takes all the pages of its slab, which are tens of GiB at most."""
_SLAB_MIB = 256
"""Where neither the node's settings nor its work says how large it is to be."""


class SidecarWork:
    """One life of it, whose executors find it by its name. Make it on a running loop. `died` is called once, with
    why."""

    def __init__(
        self,
        name: str,
        settings: NodeSettings,
        died: Callable[[str], None],
        asked_mib: int = 0,
        *,
        start_s: float = _START_S,
    ) -> None:
        """`asked_mib`: of its slab, where the settings leave it open; 0: nobody says. `start_s`: seconds within which
        it has to serve."""
        self._name, self._settings, self._died = name, settings, died
        self._slab_mib = settings.slab_mib or asked_mib or _SLAB_MIB
        self._start_s = start_s
        self._child: Child | None = None

    async def start(self) -> None:
        """Return once it serves, or has died, or is ended since it does not come to serve."""
        settings = self._settings
        command = [sys.executable, "-m", "agents.tensors", "--name", self._name, "--interface", settings.interface]
        command += ["--slab-mib", str(self._slab_mib), "--owner", str(os.getpid())]
        if leaves_network(settings.network, settings.network, settings.interface):
            command.append("--encrypt")
        try:
            self._child = await Child.start("tensors", command, self._died)
        except OSError as error:
            self._died(str(error))
            return
        try:
            await asyncio.wait_for(self._child.first_line(), self._start_s)
        except TimeoutError:
            await self._child.stop(self._settings.grace_s)  # says nothing of its end any more
            self._died(
                f"it did not serve within {self._start_s:g} s and was ended; a slab of {self._slab_mib} MiB may be "
                "more than this node has time or memory for: see MEDLEY_NODE_SLAB_MIB"
            )

    @property
    def last_words(self) -> tuple[str, ...]:
        return () if self._child is None else self._child.last_words

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop(self._settings.grace_s)


def sidecar_name() -> str:
    """Return a name that no other node of this machine has."""
    return f"medley-tensors-{secrets.token_hex(8)}"
