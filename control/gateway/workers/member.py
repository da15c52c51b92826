"""One worker of a gateway as the others' counts are concerned."""

import asyncio
from collections import Counter

from control.gateway.key_limits import Holder
from control.gateway.workers.messages import State, ToSupervisor
from control.gateway.workers.pipe import Pipe
from control.gateway.workers.totals import Family


class Member:
    def __init__(self, number: int, pipe: Pipe[ToSupervisor]) -> None:
        self.number = number
        self.pipe = pipe
        self.is_listening = False
        self.silent_beats = 0
        """Heartbeats since it sent something. The supervisor's own: while that is stopped, workers are not silent."""
        self.families: list[Family] = []
        """Its metrics, as it sent them last."""
        self.open: Counter[Holder] = Counter()
        """Requests of keys with limits that it has open."""
        self.reports: dict[int, asyncio.Future[State | None]] = {}
        """Reports that it was asked for; None: it is gone."""

    def charge(self, holders: tuple[Holder, ...], requests: int) -> None:
        """Note that it has so many more open, or fewer."""
        for who in holders:
            self.open[who] += requests
            if self.open[who] <= 0:
                del self.open[who]
