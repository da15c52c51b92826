"""Samples the load of instances every minute, and makes hours of what was sampled. Any number of API processes may."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from starlette.concurrency import run_in_threadpool

from control.db.database import Database
from control.db.errors import DatabaseError
from control.db.load_series import PostgresLoadSeries
from control.db.slo_samples import PostgresSloSamples
from control.fleet.capacities import capacities

_log = logging.getLogger(__name__)
_ROLL_UP_EVERY = 10
"""Looks between two roll-ups."""


class LoadSampler:
    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def run(self) -> None:
        """Sample every minute, until cancelled. A database that does not answer leaves a gap."""
        looks = 0
        while True:
            now = self._clock()
            await asyncio.sleep(60 - now.second - now.microsecond / 1e6)
            try:
                await run_in_threadpool(self.look)
                if looks % _ROLL_UP_EVERY == 0:
                    await run_in_threadpool(self.roll_up)
            except DatabaseError as error:
                _log.warning("load of instances is not sampled: %s", error)
            except Exception:
                _log.exception("load of instances is not sampled")
            looks += 1

    def look(self) -> None:
        """Sample what nodes said last, and the capacity that is ready. Raises DatabaseUnavailableError."""
        PostgresLoadSeries(self._database).look(capacities(self._database), self._clock())

    def roll_up(self) -> None:
        """Make hours of samples that are old enough, and drop those that are too old. Raises
        DatabaseUnavailableError."""
        now = self._clock()
        PostgresLoadSeries(self._database).roll_up(now)
        PostgresSloSamples(self._database).roll_up(now)
