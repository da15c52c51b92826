"""`medley graphs`: any-to-any models as graphs of components."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from control.cli.guard import Commands
from control.cli.output import Output, OutputOption, console, emitted, table

if TYPE_CHECKING:
    from templates_lib.media.image_layout import ImageLayout

_MOST_CLIP_S = 86_400.0

app = Commands(
    name="graphs", help="Inspect any-to-any models: components, what they send each other.", no_args_is_help=True
)


@app.command("list")
def list_(output: OutputOption = Output.TABLE) -> None:
    """List the models that Medley knows as graphs."""
    from control.planning.graph_document import known_graphs

    graphs = known_graphs()
    if emitted(graphs, output):
        return
    right = ("weights GiB", "request types")
    shown = table("graph", "model", "components", *right, right=right)
    for graph in graphs:
        components = ", ".join(each.component for each in graph.components)
        weights, types = f"{graph.weight_gib:.1f}", str(len(graph.request_types))
        shown.add_row(graph.graph, graph.revision, components, weights, types)
    console().print(shown)


@app.command("show")
def show(
    model: Annotated[
        str, typer.Argument(help="Name of a graph (`medley graphs list`), or path of a published config.json.")
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a model's components, edges and request types."""
    from control.planning.graph_document import graph_document
    from control.planning.graph_file import named_graph

    graph, source = named_graph(model)
    document = graph_document(graph, source)
    if emitted(document, output):
        return
    from control.cli.graph_table import print_graph

    print_graph(graph, source, document.request_types, console())


@app.command("tokens")
def tokens(
    model: Annotated[
        str, typer.Argument(help="Name of a graph (`medley graphs list`), or path of a published config.json.")
    ],
    image: Annotated[
        list[str] | None, typer.Option("--image", help="WIDTHxHEIGHT of a picture, in pixels (repeat).")
    ] = None,
    audio: Annotated[list[float] | None, typer.Option("--audio", help="Seconds of a clip (repeat).")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count the tokens that a model sees pictures as, and hears clips as."""
    from control.planning.graph_file import named_graph
    from templates_lib.graphs.media_tokens import clip_tokens, image_layout

    if not image and not audio:
        raise ValueError("nothing to count: name a picture with --image 896x896, or a clip with --audio 30")
    graph, _ = named_graph(model)
    sizes = [_size(each) for each in image or ()]
    images = [_layout(*size, image_layout(graph, *size)) for size in sizes]
    clips = [
        {"seconds": seconds, "audio_tokens": clip_tokens(graph, _positive(seconds, "--audio"))}
        for seconds in audio or ()
    ]
    if emitted({"graph": graph.id, "images": images, "clips": clips}, output):
        return
    from control.cli.graph_table import print_tokens

    print_tokens(images, clips, console())


@app.command("cells")
def cells(
    model: Annotated[
        str, typer.Argument(help="Name of a graph (`medley graphs list`), or path of a published config.json.")
    ],
    gpu: Annotated[str, typer.Option("--gpu", help="GPU that cells are made of, such as A100-80.")],
    largest: Annotated[int, typer.Option("--largest", help="GPUs of the largest cell: 1 to 64.")] = 16,
    share: Annotated[
        list[str] | None,
        typer.Option("--share", help="TYPE=SHARE of a request type (repeat; add up to 1). Default: all types alike."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Plan a model's cells on one kind of GPU, by estimated times (the Cornserve paper's planner)."""
    from control.planning.graph_cells import cells_of
    from control.planning.graph_file import named_graph

    graph, _ = named_graph(model)
    found = cells_of(graph, gpu, largest, dict(_share(each) for each in share or ()))
    kept = {cell.gpus for cell in found.efficient}
    rows = [
        {
            "gpus": 2**exponent,
            "requests_per_s": plan.requests_per_s,
            "efficient": 2**exponent in kept,
            "replicas": plan.replicas,
            "paths": [
                {"request_type": path.request_type, "path": path.path.name, "requests_per_s": flow}
                for path, flow in zip(found.problem.paths, plan.flows, strict=True)
                if flow > 1e-6 * plan.requests_per_s
            ],
        }
        for exponent, plan in enumerate(found.plans)
    ]
    document = {"graph": graph.id, "gpu": gpu, "step_times": "estimated", "cells": rows, "apart": found.refused}
    if emitted(document, output):
        return
    from control.cli.graph_table import print_cells

    print_cells(document, console())


def _size(text: str) -> tuple[int, int]:
    """Width and height. Raises ValueError."""
    width, separator, height = text.partition("x")
    if not separator or not all(side.isascii() and side.isdecimal() and len(side) <= 6 for side in (width, height)):
        raise ValueError(f"--image {text}: is no size; write width and height in pixels as 896x896")
    return int(width), int(height)


def _positive(value: float, option: str) -> float:
    if not 0 < value <= _MOST_CLIP_S:
        raise ValueError(f"{option} {value:g}: must be above 0 and at most {_MOST_CLIP_S:g} seconds")
    return value


def _layout(width: int, height: int, layout: "ImageLayout") -> dict[str, Any]:
    return {
        "width": width,
        "height": height,
        "tiles": layout.tiles,
        "grid": [layout.rows, layout.columns],
        "canvas": [layout.width, layout.height],
        "image_tokens": layout.image_tokens,
        "prompt_tokens": layout.prompt_tokens,
    }


def _share(text: str) -> tuple[str, float]:
    name, separator, value = text.rpartition("=")
    try:
        return (name, float(value)) if separator else _no_share(text)
    except ValueError:
        return _no_share(text)


def _no_share(text: str) -> tuple[str, float]:
    raise ValueError(f"--share {text}: is no share of a request type; write it as text-to-text=0.3")
