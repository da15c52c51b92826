"""`medley graphs`: any-to-any models as graphs of components."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from control.cli.guard import Commands
from control.cli.output import Output, OutputOption, console, emitted, table

if TYPE_CHECKING:
    from templates_lib.media.image_layout import ImageLayout

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
        list[str] | None, typer.Option("--image", help="WIDTHxHEIGHT of a picture in pixels, or its file (repeat).")
    ] = None,
    audio: Annotated[
        list[str] | None, typer.Option("--audio", help="Seconds of a clip, or its WAV file (repeat).")
    ] = None,
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
    lengths = [_seconds(each) for each in audio or ()]
    clips = [{"seconds": seconds, "audio_tokens": clip_tokens(graph, seconds)} for seconds in lengths]
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
    """Width and height, as given or as a file's header says, upright. Raises ValueError."""
    from templates_lib.media.image_header import ImageLimits, image_header, upright
    from templates_lib.media.media_error import MediaError

    if given := re.fullmatch(r"([0-9]{1,6})x([0-9]{1,6})", text):
        return int(given[1]), int(given[2])
    limits = ImageLimits()
    try:
        header = upright(image_header(_bytes_of(text, "--image", "896x896", limits.max_bytes), limits))
    except MediaError as error:
        raise ValueError(f"--image {text}: {error.message}") from None
    return header.width, header.height


def _seconds(text: str) -> float:
    """Length of a clip, as given or as a file's header says. Raises ValueError."""
    from templates_lib.media.media_error import MediaError
    from templates_lib.media.wav_header import AudioLimits, wav_header

    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) and float(text) > 0:
        return float(text)
    limits = AudioLimits()
    try:
        return wav_header(_bytes_of(text, "--audio", "30", limits.max_bytes), limits).seconds
    except MediaError as error:
        raise ValueError(f"--audio {text}: {error.message}") from None


def _bytes_of(name: str, option: str, example: str, most: int) -> bytes:
    """Bytes of a file, one more than `most` at the most. Raises ValueError, OSError."""
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"{option} {name}: is neither a measure such as {example} nor a file; write one of both")
    with path.open("rb") as file:
        return file.read(most + 1)


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
