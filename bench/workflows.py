"""What the journal of a run costs, what it takes to place the calls of one, and what that is worth.

    python -m bench.workflows overhead
    python -m bench.workflows schedule
    python -m bench.workflows compare [--minutes 20] [--traces ../shared/data/traces]

`overhead`: a call of a service that does nothing, journaled and not.
An orchestrator, the process of a run and that of its services, and an embedded database on this machine's disk. Runs
of either kind take turns; their code times each of its calls. Exits with 1 where the median of journaled calls is more
than 5 ms above that of others.

`schedule`: Algorithm 1 of DyOrc on 32 places that all differ, `occupied` and as printed, over 300 random requests each:
a chain of six calls, and five calls behind one, which another joins. Exits with 1 where the 99th percentile is above 1
and 5 ms, or the mean latency more than 2 % above that of a search that keeps 20,000 partial schedules.

`compare`: mean latency of the paper's scenarios in simulation (`bench.workflow_scenarios` has the assumptions), on a
cell of 32 places beside both baselines, and on one machine of 8 beside the other ways to place calls. Exits with 1
where a bar is missed.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.workflow_policies import compare
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
from policies.workflows.call_placement import compile_placement, placed
from policies.workflows.call_request import CallRequest

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
PLACES, REQUESTS, COMPARED = 32, 300, 20
CHAIN = ((), (0,), (1,), (2,), (3,), (4,))
FAN_OUT = ((), (0,), (0,), (0,), (0,), (0,), (1, 2, 3, 4, 5))


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
    push_app(act, "bench", TaskSource("app.py", APP), needs_isolation=False)
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


def request_of(shape: Sequence[tuple[int, ...]], chance: np.random.Generator) -> CallRequest:
    calls = len(shape)
    comm_s = chance.uniform(0.01, 0.3, (calls, PLACES, PLACES)) * (1 - np.eye(PLACES))
    comp_s = np.repeat(chance.uniform(0.1, 2.0, (calls, 1)), PLACES, axis=1) * chance.uniform(0.9, 1.1, PLACES)
    return CallRequest(tuple(shape), chance.uniform(0.0, 3.0, (calls, PLACES)), comp_s, comm_s)


def schedule() -> int:
    compile_placement()
    missed = False
    for name, shape, bar_ms in (("chain of 6", CHAIN, 1.0), ("fan-out of 5", FAN_OUT, 5.0)):
        for occupied in (True, False):
            chance = np.random.default_rng(26)
            requests = [request_of(shape, chance) for _ in range(REQUESTS)]
            took_ms, computed_ms, latency_s = [], [], []
            for request in requests:
                began_s, computed_s = time.perf_counter(), time.thread_time()
                latency_s.append(placed(request, occupied=occupied).latency_s)
                computed_ms.append((time.thread_time() - computed_s) * 1000)
                took_ms.append((time.perf_counter() - began_s) * 1000)
            some = requests[:COMPARED]
            best_s = [placed(each, occupied=occupied, most_states=20_000).latency_s for each in some]
            above = sum(latency_s[:COMPARED]) / sum(best_s) - 1
            p99 = float(np.percentile(took_ms, 99))
            kind = "occupied" if occupied else "printed"
            print(
                f"{name}, {kind}: p50 {np.median(took_ms):.2f} ms, p99 {p99:.2f} ms (bar {bar_ms:g}), of a processor "
                f"{np.percentile(computed_ms, 99):.2f} ms, {above:+.2%}"
            )
            missed |= p99 > bar_ms or above > 0.02
    return int(missed)


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "schedule", "compare"])
    parser.add_argument("--minutes", type=float, default=20.0, help="simulated time of `compare`")
    default = Path(__file__).parents[2] / "shared" / "data" / "traces"
    parser.add_argument("--traces", type=Path, default=default, help="folder with ServeGen's clients, for `compare`")
    given = parser.parse_args()
    if given.what == "compare":
        return compare(given.traces, given.minutes)
    return overhead() if given.what == "overhead" else schedule()


if __name__ == "__main__":
    sys.exit(main())
