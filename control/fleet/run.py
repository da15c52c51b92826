"""Runs a loop beside the hub that it shares a board with."""

import asyncio
import time
from typing import Protocol

from control.hub.hub import Hub

TICK_S = 0.25
_REFRESH_S = 5.0


class Ticking(Protocol):
    def tick(self) -> None: ...


async def run(loop: Ticking, hub: Hub, tick_s: float = TICK_S) -> None:
    """Run until cancelled."""
    refreshed_s = time.monotonic()
    while True:
        await asyncio.to_thread(loop.tick)
        if time.monotonic() - refreshed_s >= _REFRESH_S:
            await hub.refresh()
            refreshed_s = time.monotonic()
        hub.tell()
        await asyncio.sleep(tick_s)
