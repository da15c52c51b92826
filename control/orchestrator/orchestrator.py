"""Takes runs of workflows, as many as it has room for, and holds them while it executes them.

Any number of orchestrators share the runs of an installation. Each holds its runs by leases in the database; what one
that died has held, others take when the lease has run out.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import datetime

from control.db.database import Database
from control.db.errors import DatabaseError
from control.db.run_journal import RunJournal
from control.db.runs import PostgresRuns
from control.db.workflows import PostgresWorkflows
from control.orchestrator.call_places import CallPlaces
from control.orchestrator.driver import RunDriver, Signalled, Stop
from control.orchestrator.model_calls import ModelCalls
from control.orchestrator.service_workers import ServiceWorkers
from control.orchestrator.settings import OrchestratorSettings
from control.orchestrator.started_calls import StartedCalls, Tools
from control.orchestrator.unjournaled import UnjournaledRun
from control.orchestrator.waiting_threads import WaitingThreads
from control.runs.record import AppVersion, RunRecord
from policies.workflows.call_dispatch import CallDispatch

_log = logging.getLogger(__name__)
_MOST_CLAIMS = 16
"""Runs that are taken between two looks at those that are held."""


class Orchestrator:
    """`run` is its thread; everything else happens in threads of its own, one a run."""

    def __init__(
        self,
        database: Database,
        settings: OrchestratorSettings,
        models: ModelCalls | None,
        clock: Callable[[], datetime],
        holder: str,
        dispatch: CallDispatch | None = None,
    ) -> None:
        """`clock`: the shared one. `holder`: for people, such as host and process id. `dispatch`: who says where calls
        of services are computed; None: each service in its first place."""
        self._settings, self._clock, self._holder = settings, clock, holder
        self._journal, self._unjournaled = RunJournal(database), UnjournaledRun(database)
        self._workflows = PostgresWorkflows(database)
        places = CallPlaces(dispatch, PostgresRuns(database).made)
        self._tools = Tools(models, ServiceWorkers(settings), places, WaitingThreads(settings.models), clock)
        self._held: dict[str, tuple[RunDriver, threading.Thread]] = {}
        self._versions: dict[str, AppVersion] = {}
        self._used_s: dict[str, float] = {}
        """Version → when a run of it was held last."""
        self._renewed_s = time.monotonic()

    def run(self, stopped: threading.Event) -> None:
        """Execute runs until `stopped`, then hand back what is not done."""
        try:
            while not stopped.is_set():
                try:
                    self._look()
                except DatabaseError as error:
                    _log.warning("runs wait for the database: %s", error)
                stopped.wait(self._settings.look_s)
        finally:
            self._close()

    def _look(self) -> None:
        self._forget_ended()
        self._renew()
        self._tell_news()
        self._take()

    def _take(self) -> None:
        """Take some of the runs that there is room for: those that are held need a look in between."""
        for _ in range(min(_MOST_CLAIMS, self._settings.runs - len(self._held))):
            run = self._journal.claim(self._holder, self._clock(), self._settings.lease, list(self._held))
            if run is None:
                return
            self._drive(run)
            self._renew()

    def _drive(self, run: RunRecord) -> None:
        if run.version not in self._versions:
            self._versions[run.version] = self._workflows.version(run.version)
        journal = self._journal if run.durable else self._unjournaled
        calls = StartedCalls(self._tools, run, self._versions[run.version])
        driver = RunDriver(run, self._versions[run.version], journal, calls, self._settings)
        thread = threading.Thread(target=_driven, args=(driver,), name=f"run {run.id}", daemon=True)
        self._held[run.id] = driver, thread
        self._used_s[run.version] = time.monotonic()
        thread.start()

    def _forget_ended(self) -> None:
        ended = [run_id for run_id, (_, thread) in self._held.items() if not thread.is_alive()]
        for run_id in ended:
            del self._held[run_id]

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_s < self._settings.lease.total_seconds() / 3:
            return
        held = {run_id: driver for run_id, (driver, _) in self._held.items()}
        epochs = [(run_id, driver.run.epoch) for run_id, driver in held.items()]
        kept = self._journal.renew(epochs, self._clock(), self._settings.lease)
        self._renewed_s = time.monotonic()
        for run_id in held.keys() - kept:
            held[run_id].events.put(Stop.LOST)
        self._drop_unused()

    def _drop_unused(self) -> None:
        """End the workers of apps that have had no run for a while."""
        now_s = time.monotonic()
        self._used_s |= {driver.run.version: now_s for driver, _ in self._held.values()}
        unused = {each for each, used_s in self._used_s.items() if now_s - used_s > self._settings.keep_s}
        for version in unused:
            del self._used_s[version]
            self._versions.pop(version, None)
        self._tools.workers.keep(set(self._used_s))

    def _tell_news(self) -> None:
        news = self._journal.news(list(self._held))
        for run_id in news.signalled:
            self._held[run_id][0].events.put(Signalled())
        for run_id in news.cancelled:
            self._held[run_id][0].events.put(Stop.CANCEL)

    def _close(self) -> None:
        for driver, _ in self._held.values():
            driver.events.put(Stop.HAND_BACK)
        until_s = time.monotonic() + self._settings.step_s + self._settings.drain_s
        self._renewed_s = -math.inf  # at once: what is drained takes longer than a lease
        while self._held and time.monotonic() < until_s:
            try:
                self._renew()
            except DatabaseError as error:
                _log.warning("runs are held without the database: %s", error)
            _, first = next(iter(self._held.values()))
            first.join(self._settings.look_s)
            self._forget_ended()
        self._tools.workers.close()


def _driven(driver: RunDriver) -> None:
    try:
        driver.drive()
    except Exception:  # of ours: the lease runs out, and the run is executed again, a few times
        _log.exception("run %s is left", driver.run.id)
