"""`medley orchestrator`: executes runs of workflows; and `medley dev`, one run in one process."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from control.cli.options import DatabaseOption, Isolation, IsolationOption
from policies.workflows.call_dispatch import CallDispatch, DispatchName


def orchestrator(
    gateway: Annotated[
        str | None, typer.Option(help="URL of Medley's gateway. Without it, runs call services alone.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=1000, help="Runs at the same time, each a process.")] = 32,
    places: Annotated[
        int, typer.Option(min=1, max=32, help="Processes for the services of each app: so many batches at once.")
    ] = 1,
    worker_memory_mib: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="MiB of memory that each of these processes may take: services that were used least recently go where "
            "another one needs room. Without it, each keeps all that it has loaded.",
        ),
    ] = None,
    dispatch: Annotated[
        DispatchName,
        typer.Option(
            help="Where calls of services are computed. speculative: where the run ends earliest with the calls that "
            "are predicted by runs before it, whose services are loaded ahead; greedy: where each is done first; "
            "round_robin: in turn."
        ),
    ] = DispatchName.GREEDY,
    isolation: IsolationOption = Isolation.NETWORK,
    database_url: DatabaseOption = None,
) -> None:
    """Execute runs of workflows until told to end; then hand back those that are not done.

    Any number of these may run on one database: what one that dies has held, another takes within seconds. Code of
    workflows and services runs in processes of its own, with the Python that this command has.
    """
    import signal
    import socket
    import threading

    from agents.tracing.json_lines import log_json_lines
    from control.cli.acting import opened
    from control.db.shared_clock import shared_clock
    from control.orchestrator.model_calls import ModelCalls
    from control.orchestrator.orchestrator import Orchestrator
    from control.orchestrator.project_keys import ProjectKeys
    from control.orchestrator.settings import OrchestratorSettings

    log_json_lines()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    holder = f"{socket.gethostname()}:{os.getpid()}"
    settings = OrchestratorSettings(
        runs=runs,
        places=places,
        worker_memory_mib=worker_memory_mib,
        needs_isolation=isolation is Isolation.NETWORK,
    )
    chosen = _dispatch(dispatch, places)
    with opened(database_url) as database:
        clock = shared_clock(database)
        keys = ProjectKeys(database, holder, clock)
        models = None if gateway is None else ModelCalls(gateway, keys.key)
        try:
            Orchestrator(database, settings, models, clock, holder, chosen).run(stopped)
        finally:
            keys.revoke()


def _dispatch(name: DispatchName, places: int) -> CallDispatch | None:
    """Return who says where calls are computed; None where there is one place, and nothing is to be predicted."""
    if places == 1 and name is not DispatchName.SPECULATIVE:
        return None
    from policies.workflows.dispatches import DISPATCHES

    return DISPATCHES[name]()


def dev(
    app: Annotated[str, typer.Argument(help="FILE.py, or FILE.py:WORKFLOW.")],
    arguments: Annotated[str, typer.Option("--arguments", "-a", help="Its arguments, a JSON object.")] = "{}",
    gateway: Annotated[
        str, typer.Option(help="URL of a gateway that models are called at, with $MEDLEY_API_KEY for a key.")
    ] = "",
    signal: Annotated[list[str] | None, typer.Option(help="NAME=JSON, given to whoever waits for it (repeat).")] = None,
) -> None:
    """Run a workflow with its services in one process, as its code is: nothing is journaled, debuggers work."""
    file, _, name = app.partition(":")
    if not Path(file).is_file():
        raise ValueError(f"{file}: there is no such file; give FILE.py:WORKFLOW")
    command = [sys.executable, "-m", "medley_sdk.flows.dev", file, "--arguments", arguments, "--gateway", gateway]
    command += ["--workflow", name] if name else []
    for each in signal or ():
        command += ["--signal", each]
    os.execv(sys.executable, command)  # noqa: S606 - this process is of no more use
