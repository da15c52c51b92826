"""Orchestrators in the test's own process, on a real database."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from control.actions.context import ActionContext
from control.actions.projects import create_project
from control.actions.workflows import push_app, start_run
from control.db.database import Database
from control.db.runs import PostgresRuns
from control.db.shared_clock import shared_clock
from control.orchestrator.model_calls import ModelCalls
from control.orchestrator.orchestrator import Orchestrator
from control.orchestrator.settings import OrchestratorSettings
from control.runs.record import RunRecord
from control.runs.run_state import OPEN, RunState
from control.runs.shown import plain
from policies.workflows.call_dispatch import CallDispatch
from tests.control.orchestrator.apps import GOOD, source

PATIENCE_S = 120.0
# Leases are longer than any stall of a busy machine: tests of lost runs end them by hand. So is
# the time that code has.
QUICK = OrchestratorSettings(
    lease=timedelta(seconds=300), look_s=0.01, load_s=PATIENCE_S, step_s=PATIENCE_S, needs_isolation=False
)


@dataclass
class World:
    database: Database

    def __post_init__(self) -> None:
        self.clock = shared_clock(self.database)
        self.runs = PostgresRuns(self.database)
        create_project(self.act(), "p")

    def act(self) -> ActionContext:
        return ActionContext(self.database, self.clock(), "cli:tester")

    def push(self, text: str = GOOD) -> None:
        push_app(self.act(), "p", source(text), needs_isolation=False)

    def start(self, workflow: str, **arguments: Any) -> str:
        return start_run(self.act(), "p", workflow, arguments).id

    @contextmanager
    def orchestrator(
        self,
        settings: OrchestratorSettings = QUICK,
        models: ModelCalls | None = None,
        dispatch: CallDispatch | None = None,
        **changes: Any,
    ) -> Iterator[Orchestrator]:
        made = Orchestrator(self.database, replace(settings, **changes), models, self.clock, "tester", dispatch)
        stopped = threading.Event()
        thread = threading.Thread(target=made.run, args=(stopped,))
        thread.start()
        try:
            yield made
        finally:
            stopped.set()
            thread.join()

    def until(self, run_id: str, is_met: Callable[[RunRecord], bool]) -> RunRecord:
        give_up_s = time.monotonic() + PATIENCE_S
        while not is_met(run := self.runs.load(run_id)):
            assert time.monotonic() < give_up_s, run
            time.sleep(0.005)
        return run

    def ended(self, run_id: str) -> RunRecord:
        return self.until(run_id, lambda run: run.state not in OPEN)

    def answer(self, run_id: str) -> Any:
        run = self.ended(run_id)
        assert run.state is RunState.DONE, run
        answer = self.runs.answer(run_id)
        return None if answer is None else plain(answer)
