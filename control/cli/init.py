"""`medley init`: a first spec file, to begin from."""

from pathlib import Path
from typing import Annotated

import typer

from control.cli.output import refuse_unwritable, write_text
from templates_lib.values.clouds import LOCAL


def init(
    path: Annotated[Path, typer.Argument(help="File to write.", metavar="SPEC")] = Path("fleet.yaml"),
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Model (repeat; `medley models` lists them).")
    ] = None,
    cloud: Annotated[
        list[str] | None, typer.Option("--cloud", help="Cloud to rent at (repeat), or `local`, this machine.")
    ] = None,
    workload: Annotated[str | None, typer.Option(help="Lengths of prompts and answers (`medley workloads`).")] = None,
    ttft_ms: Annotated[float | None, typer.Option(help="Milliseconds to the first token.")] = None,
    tpot_ms: Annotated[float | None, typer.Option(help="Milliseconds for each token after it.")] = None,
    requests_per_s: Annotated[float | None, typer.Option(help="Rate of each model.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the fleet. Default: that of the file.")] = None,
) -> None:
    """Write a first spec file, checked as `medley plan` checks it."""
    from control.fleet_file.document import parse
    from control.fleet_file.starter import starter
    from control.planning.world import world_of

    refuse_unwritable(path)
    if path.exists():
        raise ValueError(f"{path} is there already: name another file, or remove it")
    text = starter(name or path.stem, model or (), cloud or (), workload, ttft_ms, tpot_ms, requests_per_s)
    world_of(parse(text, str(path)), ())
    write_text(path, text)
    serve = f"medley up -f {path}" if cloud == [LOCAL] else f"medley apply -f {path}"
    typer.echo(f"wrote {path}; `medley plan -f {path}` says what it would cost, `{serve}` goes on from there")
