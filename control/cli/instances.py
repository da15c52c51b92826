"""`medley instances`, `medley events`: what runs, where, how busy it is, and its history."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import opened
from control.cli.options import DatabaseOption, LimitOption
from control.cli.output import Output, OutputOption, console, emitted, say, table
from control.cli.time_text import age

if TYPE_CHECKING:
    from control.fleet.instance_view import ExecutorView, InstanceView, NodeView


def instances(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """Show every instance that is not terminated: its nodes, their layers or components, and how busy it is."""
    from control.fleet.live_instances import instance_views

    with opened(database_url) as database:
        views = instance_views(database)
    if emitted(views, output):
        return
    if not views:
        typer.echo("No instance runs: all that are recorded are terminated.")
        return
    columns = ("instance", "model", "leg", "state", "since", "stage", "layers", "node", "cpu", "MiB", "load", "KV")
    shown = table(*columns, right=("stage", "cpu", "MiB", "load", "KV"))
    for view in views:
        executors, before = {each.id: each for each in view.executors}, None
        for number, node in enumerate(view.nodes):
            executor, is_first = executors.get(node.executor), node.executor != before
            own = _of_instance(view) if number == 0 else ("", "", "", "", "")
            if executor is not None and is_first:
                own = own[0], f"{node.executor}: {executor.component}", own[2], executor.state or "-", own[4]
            shown.add_row(*own, *_of_node(node), *(_load(executor or view) if is_first else ("", "")))
            before = node.executor
    console().print(shown)


def events(
    instance: Annotated[str | None, typer.Argument(help="Id of an instance, or its beginning; default: all.")] = None,
    limit: LimitOption = 50,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show the history of instances, step by step, with the reasons."""
    from control.db.instances import PostgresInstances
    from control.db.short_ids import whole_id

    with opened(database_url) as database:
        stored = PostgresInstances(database)
        if instance is not None:
            instance = whole_id(database, "instance", instance)
        steps = (stored.recent(limit) if instance is None else stored.history(instance))[-limit:]
    if emitted(steps, output):
        return
    if not steps:
        say("medley: no instance was ever requested")
    for step in steps:
        at = datetime.fromisoformat(step.at).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        typer.echo(f"{at}  {step.instance_id}  {step.from_state or 'new'} -> {step.to_state}: {step.reason}")


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
