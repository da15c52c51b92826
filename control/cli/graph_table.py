"""A graph of components as tables for people."""

from typing import Any

from rich.console import Console

from control.cli.output import table
from templates_lib.graphs.component import EncoderSpec
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.media.image_layout import ImageLayout
from templates_lib.values.gpu import GIB

_EXAMPLE = (896, 896)
"""Width and height of the picture that graphs are shown with (the ModServe paper's Table 1)."""


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
    for encoder in graph.components:
        if isinstance(encoder.spec, EncoderSpec) and encoder.spec.images is not None:
            console.print(_example(encoder.name, encoder.spec.images.layout(*_EXAMPLE)))
    visits = table("request type", "visits")
    for name, components in types.items():
        visits.add_row(name, ", ".join(components))
    console.print(visits)


def _example(encoder: str, layout: ImageLayout) -> str:
    tiles = "one tile" if layout.tiles == 1 else f"{layout.tiles} tiles"
    picture = f"a picture of {_EXAMPLE[0]} by {_EXAMPLE[1]} pixels is {tiles}, {layout.image_tokens:,} image tokens"
    return f"{encoder}: {picture}; `medley graphs tokens` counts others"


def print_tokens(images: list[dict[str, Any]], clips: list[dict[str, Any]], console: Console) -> None:
    if images:
        right = ("tiles", "image tokens", "prompt tokens")
        shown = table("image", "canvas", "grid", *right, right=right)
        for each in images:
            size, canvas, grid = ((each["width"], each["height"]), each["canvas"], each["grid"])
            pairs = [f"{first} x {second}" for first, second in (size, canvas, grid)]
            shown.add_row(*pairs, *(f"{each[key]:,}" for key in ("tiles", "image_tokens", "prompt_tokens")))
        console.print(shown)
    if clips:
        shown = table("clip", "audio tokens", right=("clip", "audio tokens"))
        for each in clips:
            shown.add_row(f"{each['seconds']:g} s", f"{each['audio_tokens']:,.0f}")
        console.print(shown)


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
