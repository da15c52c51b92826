"""`medley instances`, `medley events`: what runs, where, how busy it is, and its history."""

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import opened
from control.cli.guard import Commands, guarded
from control.cli.options import DatabaseOption, LimitOption
from control.cli.output import Output, OutputOption, console, emit, emitted, say, table
from control.cli.time_text import age, utc

if TYPE_CHECKING:
    from control.db.database import Database
    from control.fleet.instance_view import ExecutorView, InstanceView, NodeView
    from control.lifecycle.history import PastTransition

app = Commands(name="instances", help="Show what runs: all instances, or one with its history.")
_POLL_S = 0.5
_MOST_STEPS = 1000
"""Read at once when following."""
_AGAIN = 100
"""Steps that are read again when following: they may be written in another order than they are numbered."""


@app.callback(invoke_without_command=True)
@guarded
def instances(ctx: typer.Context, output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """Show every instance that is not terminated: its nodes, their layers or components, and how busy it is."""
    if ctx.invoked_subcommand is None:
        _list(output, database_url)
        return
    # What stands before the subcommand holds for it, unless it says otherwise.
    ctx.default_map = {ctx.invoked_subcommand: {"output": output.value, "database_url": database_url}}


@app.command("list")
def list_instances(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """Show every instance that is not terminated, as `medley instances` does."""
    _list(output, database_url)


@app.command("show")
def show(
    instance: Annotated[str, typer.Argument(help="Id of an instance, or its beginning.")],
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show one instance, also one that is terminated: what it was planned for, its nodes, its load and its history."""
    from control.db.instance_pages import instance_page
    from control.db.instances import PostgresInstances
    from control.db.short_ids import whole_id
    from control.fleet.live_instances import views

    with opened(database_url) as database:
        whole = whole_id(database, "instance", instance)
        (view,) = views(database, instance_page(database, 1, ids=[whole]))
        history = PostgresInstances(database).history(whole)
    if emitted({"instance": view, "history": history}, output):
        return
    planned = ", ".join(f"{units:,.1f}/s of {name}" for name, units in view.work.items())
    typer.echo(f"instance {view.id} of fleet {view.fleet}: {view.state} for {_since(view.state_since)}")
    typer.echo(f"  {view.model} in {view.zone} ({view.market}), {view.usd_per_hour:,.4f} $/h")
    typer.echo(f"  planned for {planned or 'nothing any more: its plan is gone'}")
    load, kv = _load(view)
    typer.echo(f"  running+waiting requests {load}" + (f", KV cache {kv} used" if kv else ""))
    shown = table("stage", "layers", "node", "cpu", "MiB", "last heard", right=("stage", "cpu", "MiB"))
    for node in view.nodes:
        shown.add_row(*_of_node(node), utc(node.last_heartbeat))
    console().print(shown)
    for step in history:
        _print(step)
    typer.echo(f"`medley logs {view.id[:12]}` shows what its nodes wrote.")


def events(
    instance: Annotated[str | None, typer.Argument(help="Id of an instance, or its beginning; default: all.")] = None,
    limit: LimitOption = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens from now on.")] = False,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show the history of instances, step by step, with the reasons.

    With --follow and `-o json` or `yaml`, each step is a document of its own.
    """
    from control.db.instances import PostgresInstances
    from control.db.short_ids import whole_id

    with opened(database_url) as database:
        stored = PostgresInstances(database)
        if instance is not None:
            instance = whole_id(database, "instance", instance)
        last = stored.last_step()
        steps = (stored.recent(limit) if instance is None else stored.history(instance))[-limit:]
        if not follow and emitted(steps, output):
            return
        if not steps:
            say("medley: no instance was ever requested")
        for step in steps:
            _tell(step, output)
        if follow:
            _follow(database, instance, {step.sequence for step in steps}, last, output)


def _follow(database: "Database", instance: str | None, seen: set[int], last: int, output: Output) -> None:
    """Print steps as they are taken, of one instance until it is terminated. `last`: the last before that."""
    from control.db.instances import PostgresInstances
    from control.lifecycle.state import InstanceState

    stored, begin, is_told = PostgresInstances(database), last, False
    while not is_told:
        # Asked before the steps are read: else those taken between the two would never be told.
        is_over = instance is not None and stored.load(instance).state == InstanceState.TERMINATED
        if not is_over:
            time.sleep(_POLL_S)
        steps = stored.steps_after(max(begin, last - _AGAIN), _MOST_STEPS)
        is_told = is_over and len(steps) < _MOST_STEPS
        for step in steps:
            if step.sequence not in seen and instance in (None, step.instance_id):
                _tell(step, output)
            seen.add(step.sequence)
            last = max(last, step.sequence)


def _tell(step: "PastTransition", output: Output) -> None:
    if output is Output.TABLE:
        _print(step)
    else:
        if output is Output.YAML:
            typer.echo("---")
        emit(step, output)


def _print(step: "PastTransition") -> None:
    typer.echo(f"{utc(step.at)}  {step.instance_id}  {step.from_state or 'new'} -> {step.to_state}: {step.reason}")


def _list(output: Output, database_url: str | None) -> None:
    from control.fleet.live_instances import instance_views

    with opened(database_url) as database:
        found = instance_views(database)
    if emitted(found, output):
        return
    if not found:
        typer.echo("No instance runs: all that are recorded are terminated.")
        return
    columns = ("instance", "model", "leg", "state", "since", "stage", "layers", "node", "cpu", "MiB", "load", "KV")
    shown = table(*columns, right=("stage", "cpu", "MiB", "load", "KV"))
    for view in found:
        executors, before = {each.id: each for each in view.executors}, None
        for number, node in enumerate(view.nodes):
            executor, is_first = executors.get(node.executor), node.executor != before
            own = _of_instance(view) if number == 0 else ("", "", "", "", "")
            if executor is not None and is_first:
                own = own[0], f"{node.executor}: {executor.component}", own[2], executor.state or "-", own[4]
            shown.add_row(*own, *_of_node(node), *(_load(executor or view) if is_first else ("", "")))
            before = node.executor
    console().print(shown)
    typer.echo("`medley instances show ID` says more of one.")


def _of_instance(view: "InstanceView") -> tuple[str, ...]:
    return view.id, view.model, view.leg or ", ".join(view.work), view.state, _since(view.state_since)


def _load(view: "InstanceView | ExecutorView") -> tuple[str, str]:
    kv = "" if view.kv_used is None else f"{view.kv_used:.0%}"
    return f"{view.running}+{view.waiting}", kv


def _of_node(node: "NodeView") -> tuple[str, ...]:
    return (
        str(node.stage),
        "+".join(node.components) or f"{node.first_layer}-{node.last_layer}",
        f"{node.config} {node.name}".rstrip(),
        "" if node.cpu_share is None else f"{node.cpu_share:.2f}",
        "" if node.memory_mib is None else str(node.memory_mib),
    )


def _since(iso: str) -> str:
    return age(max(timedelta(0), datetime.now(UTC) - datetime.fromisoformat(iso)))
