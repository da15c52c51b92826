"""Where the use of keys with limits is counted: in this process, or for several in one."""

import asyncio
from typing import Protocol

from control.gateway.key_limits import KeyCharge, KeyLimits, holders_of
from control.gateway.published import AccessKey


class Limits(Protocol):
    """Methods are those of `KeyLimits`."""

    async def take(self, key: AccessKey | None, tokens: float, requests: int = 1) -> KeyCharge | None:
        """Raises ApiError. Nothing is taken where the caller is cancelled meanwhile."""

    def settle(self, taken: KeyCharge, tokens: float) -> None: ...

    def give_back(self, taken: KeyCharge) -> None: ...


class OwnLimits:
    """Counts in this process. Make it on a running loop."""

    def __init__(self) -> None:
        self._limits = KeyLimits()
        self._loop = asyncio.get_running_loop()

    async def take(self, key: AccessKey | None, tokens: float, requests: int = 1) -> KeyCharge | None:
        return self._limits.take(holders_of(key), tokens, self._loop.time(), requests)

    def settle(self, taken: KeyCharge, tokens: float) -> None:
        self._limits.settle(taken, tokens, self._loop.time())

    def give_back(self, taken: KeyCharge) -> None:
        self._limits.give_back(taken, self._loop.time())
