"""The workers of an API process: there while there is work, and a minute longer."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool

from control.api.settings import ApiSettings
from control.db.database import Database
from control.db.errors import DatabaseError
from control.db.operations import PostgresOperations

_log = logging.getLogger(__name__)
_LOOK_S = 5.0
"""Between looks for what other processes have left."""
_END_S = 5.0
_BACK_OFF_S = 2.0
"""Pause between two starts: a worker that dies at once is not started a thousand times a second."""


class WorkPool:
    def __init__(self, database: Database, settings: ApiSettings, environment: Mapping[str, str]) -> None:
        """`environment`: of the workers, with the database's address."""
        self._database = database
        self._settings = settings
        self._environment = dict(environment)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._work = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        """Have workers look for new work. Called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._work.set)

    async def run(self) -> None:
        """Run until cancelled; then end the workers, whose operations others take over."""
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                started = False
                try:
                    started = await run_in_threadpool(self._start_if_needed)
                except (DatabaseError, OSError) as error:
                    _log.warning("no worker can be started: %s", error)
                await asyncio.sleep(_BACK_OFF_S if started else 0)
                try:
                    await asyncio.wait_for(self._work.wait(), _LOOK_S)
                except TimeoutError:
                    continue
                self._work.clear()
        finally:
            await asyncio.shield(run_in_threadpool(self._end))

    def _start_if_needed(self) -> bool:
        self._workers = [worker for worker in self._workers if worker.poll() is None]
        room = len(self._workers) < self._settings.workers
        if not room or not PostgresOperations(self._database).waiting():
            return False
        limit_s = self._settings.operation_limit.total_seconds()
        command = [sys.executable, "-m", "control.api.work", "--limit-s", str(limit_s), "--parent", str(os.getpid())]
        self._workers.append(subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL))
        return True

    def _end(self) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            try:
                worker.wait(_END_S)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
