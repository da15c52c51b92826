"""A graph of components as tables for people."""

from typing import Any

from rich.console import Console

from control.cli.output import table
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.values.gpu import GIB


def print_graph(graph: ModelGraph, source: str, types: dict[str, tuple[str, ...]], console: Console) -> None:
    console.print(f"{graph.id} ({graph.revision}), {graph.weight_bytes / GIB:.1f} GiB of weights", style="bold")
    console.print(f"from {source}")
    shown = table("component", "kind", "works in", "weights GiB", "reads", "answers", right=("weights GiB",))
    for each in graph.components:
        weights = f"{each.weight_bytes / GIB:.2f}"
        shown.add_row(each.name, each.kind, each.unit.plural, weights, each.reads or "", each.answers or "")
    console.print(shown)
    if graph.edges:
        edges = table("from", "to", "bytes", "a", "sent", "needed", right=("bytes",))
        for edge in graph.edges:
            unit = graph.component(edge.source).unit.value.replace("_", " ")
            sent = "as it is made" if edge.stream else "at once"
            prompt = ", the prompt's too" if edge.with_context else ""
            needed = "always" if edge.required else "by some requests"
            edges.add_row(edge.source, edge.target, f"{edge.bytes_per_unit:,.0f}", unit, sent + prompt, needed)
        console.print(edges)
    visits = table("request type", "visits")
    for name, components in types.items():
        visits.add_row(name, ", ".join(components))
    console.print(visits)


def print_cells(document: dict[str, Any], console: Console) -> None:
    console.print(f"{document['graph']} on {document['gpu']}, by estimated times", style="bold")
    right = ("GPUs", "requests/s", "a GPU")
    shown = table(*right, "", "replicas", "paths", right=right)
    for cell in document["cells"]:
        served, gpus = cell["requests_per_s"], cell["gpus"]
        replicas = ", ".join(f"{count} x {name}" for name, count in cell["replicas"].items())
        paths = "\n".join(
            f"{each['request_type']}: {each['requests_per_s'] / served:.0%} by {each['path']}" for each in cell["paths"]
        )
        if served == 0:
            shown.add_row(str(gpus), "0", "", "too small for the model", "", "")
            continue
        mark = "" if cell["efficient"] else "no cell: smaller ones serve as much"
        shown.add_row(str(gpus), f"{served:.3g}", f"{served / gpus:.3g}", mark, replicas, paths)
    console.print(shown)
    for components, why in document["apart"].items():
        console.print(f"not together: {components}: {why}")
