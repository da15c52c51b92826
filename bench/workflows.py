"""What the journal of a run costs: a call of a service that does nothing, journaled and not.

    python -m bench.workflows overhead

An orchestrator, the process of a run and that of its services, and an embedded database on this machine's disk. Runs
of either kind take turns; their code times each of its calls. Exits with 1 where the median of journaled calls is more
than 5 ms above that of others.
"""

import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from control.actions.context import ActionContext
from control.actions.projects import create_project
from control.actions.workflows import push_app, start_run
from control.db.database import Database, open_database
from control.db.embedded import embedded_server
from control.db.runs import PostgresRuns
from control.db.shared_clock import shared_clock
from control.orchestrator.orchestrator import Orchestrator
from control.orchestrator.settings import OrchestratorSettings
from control.runs.run_state import OPEN, RunState
from control.runs.shown import plain
from control.tasks.task_source import TaskSource

APP = """
import time

import medley_sdk as medley


@medley.service
class Nothing:
    def __call__(self, numbers: list[int]) -> list[int]:
        return numbers


async def timed(calls: int) -> list[float]:
    found = []
    for number in range(calls):
        began_s = time.perf_counter()
        await Nothing(number)
        found.append(time.perf_counter() - began_s)
    return found


@medley.workflow
async def journaled(calls: int) -> list[float]:
    return await timed(calls)


@medley.workflow(durable=False)
async def light(calls: int) -> list[float]:
    return await timed(calls)
"""
KINDS = ("light", "journaled")
CALLS, ROUNDS, FIRST = 100, 5, 5
"""`FIRST` calls of a run are not counted: they start the process of its services."""
BAR_MS = 5.0


def answer(database: Database, act: ActionContext, workflow: str) -> list[float]:
    """Return the seconds of each call of a run."""
    runs = PostgresRuns(database)
    run = start_run(act, "bench", workflow, {"calls": CALLS})
    while (found := runs.load(run.id)).state in OPEN:
        time.sleep(0.01)
    assert found.state is RunState.DONE, found.reason
    data = runs.answer(run.id)
    assert data is not None
    seconds: list[float] = plain(data)
    return seconds[FIRST:]


def measured(database: Database) -> dict[str, list[float]]:
    clock = shared_clock(database)
    act = ActionContext(database, clock(), "cli:bench")
    create_project(act, "bench")
    push_app(act, "bench", TaskSource("app.py", APP))
    stopped = threading.Event()
    made = Orchestrator(database, OrchestratorSettings(needs_isolation=False), None, clock, "bench")
    thread = threading.Thread(target=made.run, args=(stopped,))
    thread.start()
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    try:
        for _ in range(ROUNDS):
            for kind in KINDS:
                found[kind] += answer(database, act, kind)
    finally:
        stopped.set()
        thread.join()
    return found


def overhead() -> int:
    with tempfile.TemporaryDirectory(prefix="medley-bench-") as folder:
        Path(folder).chmod(0o755)  # the server is a user of its own
        with embedded_server(Path(folder) / "data"), open_database(data_dir=Path(folder) / "data") as database:
            found = measured(database)
    figures: dict[str, Any] = {}
    for kind, seconds in found.items():
        cuts = statistics.quantiles((1000 * each for each in seconds), n=100)
        figures[kind] = cuts[49]
        print(f"{kind:10} call: p50 {cuts[49]:6.2f} ms, p95 {cuts[94]:6.2f} ms, {len(seconds)} calls")
    added_ms = figures["journaled"] - figures["light"]
    is_met = added_ms <= BAR_MS
    print(f"the journal adds {added_ms:.2f} ms a call (p50); bar {BAR_MS:g} ms: {'met' if is_met else 'missed'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    if sys.argv[1:] != ["overhead"]:
        sys.exit("usage: python -m bench.workflows overhead")
    sys.exit(overhead())
