"""The owner of the KV cache that models of a node share: one process, beside their executors."""

import asyncio
import os
import secrets
import shutil
import sys
from collections.abc import Callable

import msgspec

from agents.messages.to_node import Pool
from agents.node.child import Child
from agents.node.settings import NodeSettings

_START_S = 300.0
"""The longest that it may take to serve: it reads what shape the members' caches have, perhaps from the hub, and takes
all of its memory."""


class PoolWork:
    """Its life: with it ends all that members keep there, so there is no second one. Make it on a running loop. `died`
    is called once, with why."""

    def __init__(self, settings: NodeSettings, died: Callable[[str], None]) -> None:
        self._settings, self._died = settings, died
        self._child: Child | None = None
        self._folder = settings.home / f"pool-{secrets.token_hex(4)}"
        self.socket = self._folder / "socket"

    async def start(self, pool: Pool) -> None:
        """Return once it serves, or has died, or is ended since it does not come to serve."""
        if self._settings.device != "cpu":
            self._died("models share a KV cache on processors only so far, and this node computes on GPUs")
            return
        told = self._folder / "pool.json"
        command = (sys.executable, "-m", "agents.kv_pool", "--pool", str(told), "--socket", str(self.socket))
        try:
            self._folder.mkdir(mode=0o700)  # no other user can enter it
            told.write_bytes(msgspec.json.encode(pool))
            self._child = await Child.start("kv_pool", (*command, "--owner", str(os.getpid())), self._died)
        except OSError as error:
            self._died(str(error))
            return
        try:
            await asyncio.wait_for(self._child.first_line(), _START_S)
        except TimeoutError:
            await self._child.stop(self._settings.grace_s)  # says nothing of its end any more
            self._died(f"the KV cache that models share was not there within {_START_S:g} s")

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop(self._settings.grace_s)
        shutil.rmtree(self._folder, ignore_errors=True)
