"""A template as a table for people."""

from collections.abc import Iterable

import msgspec
from rich.console import Console
from rich.table import Table

from control.cli.output import table
from control.planning.templates import StoredTemplate
from templates_lib.sources.graph_record import GpuExecutor
from templates_lib.sources.placement_kinds import executors_of, gpu_executors
from templates_lib.values.placement import Executor

PLACE = "stage", "layers", "nodes"
RUNS = "share of each", "tp", "dp", "pp", "ep", "requests a step", "prompt tokens a step", "KV blocks"


def print_template(stored: StoredTemplate, console: Console) -> None:
    template, capacity = stored.template, stored.capacity
    nodes = " + ".join(f"{n} x {config}" for config, n in template.nodes.items())
    console.print(f"Template {template.id} of library {stored.library_version}", style="bold")
    by = f" by {template.engine}" if template.engine else ""
    console.print(f"{template.model} ({template.dtype}){by}, dispatch {template.dispatch}, on {nodes}")
    if components := gpu_executors(template):
        console.print(_components(components))
    if (executors := executors_of(template)) is None:
        console.print(f"{template.placement.kind}: {msgspec.json.encode(template.placement.payload).decode()}")
    for executor in (each for each in executors or () if each.graph is None):
        if len(executors or ()) > 1:
            console.print(f"executor {executor.id}: {executor.component} ({executor.dtype}) by {executor.engine}")
        console.print(_stages(executor))
    joint = " or " if capacity.limits else " and "
    for point in capacity.points:
        rates = (f"{units:,.4g} units/s of {name}" for name, units in point.units_per_s.items())
        console.print(f"sustains {joint.join(rates)}")
    for limit in capacity.limits:
        used = (f"{use:.4g} of {name}" for name, use in limit.items())
        console.print(f"together at most 1, where a unit per second takes {', '.join(used)}")
    if capacity.slo_ms:
        waiting = ", waiting included" if capacity.queueing else ""
        promise = f"within {capacity.slo_ms:g} ms, percentile {capacity.percentile:g}{waiting}"
        console.print(f"{promise}, shape {capacity.shape_id}")


def _components(executors: Iterable[GpuExecutor]) -> Table:
    right = ("replicas", "GPUs of each")
    shown = table("components", *right, "requests at once", right=right)
    for each in executors:
        at_once = ", ".join(f"{name} {most:,}" for name, most in each.together.items())
        shown.add_row(" + ".join(each.components), str(len(each.devices)), str(each.gpus), at_once)
    return shown


def _stages(executor: Executor) -> Table:
    shown = table(*PLACE, *RUNS, right=RUNS)
    for number, stage in enumerate(executor.stages, start=1):
        layers = f"{stage.first_layer}-{stage.first_layer + stage.layers - 1}"
        for n in stage.nodes:
            split = (str(each) for each in (n.tp, n.dp, n.pp, n.ep))
            steps = (f"{each:,}" for each in (n.batch_cap, n.chunk_tokens, n.kv_blocks))
            shown.add_row(str(number), layers, f"{n.count} x {n.config}", f"{n.weight:.1%}", *split, *steps)
    return shown
