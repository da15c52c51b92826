"""Watches for the notice that the cloud will take this node."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from agents.messages.to_hub import Interruption
from agents.node.metadata import InterruptionNotice, Metadata, MetadataError

_log = logging.getLogger(__name__)

_EVERY_S = 5.0
"""As AWS advises; it gives two minutes."""
_MOST_S = 60.0
"""Between tries while nobody answers: on a machine that is none of the cloud's nobody ever will."""


class InterruptionWatch:
    """`changed` is called, on the loop, when there is news."""

    def __init__(self, metadata: Metadata, changed: Callable[[], None]) -> None:
        self._metadata = metadata
        self._changed = changed
        self._announced: InterruptionNotice | None = None

    def report(self) -> Interruption | None:
        """Return how long the node has left as of now, so that nobody has to share its clock; None when it may stay."""
        if self._announced is None:
            return None
        left_s = (self._announced.at - datetime.now(UTC)).total_seconds()
        return Interruption(min(max(0.0, left_s), 86400.0), self._announced.reason)

    async def run(self) -> None:
        """Watch until cancelled."""
        wait_s = _EVERY_S
        while True:
            try:
                found = await asyncio.to_thread(self._metadata.interruption, datetime.now(UTC))
            except MetadataError as error:
                if wait_s == _EVERY_S:
                    _log.warning("notices of interruption are not to be had now: %s", error)
                wait_s = min(_MOST_S, 2 * wait_s)
            else:
                wait_s = _EVERY_S
                if found != self._announced:
                    _log.warning("this node will be taken: %s", found.reason if found else "called off")
                    self._announced = found
                    self._changed()
            await asyncio.sleep(wait_s)
