"""`medley init`: a first spec file, to begin from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from control.cli.output import refuse_unwritable, write_text
from templates_lib.values.clouds import LOCAL

_REGIONS = {"aws": "us-east-2", "gcp": "us-central1"}
"""One region to begin with: a fleet that may be anywhere has far more to choose from than a first look needs."""


@dataclass(frozen=True, slots=True)
class _Usual:
    """What a first fleet asks for where nobody says more."""

    model: str
    workload: str
    ttft_ms: float
    tpot_ms: float
    requests_per_s: float


_RENTED = _Usual("gpt-oss-20b", "azure-conversation", 2000.0, 100.0, 1.0)
_HERE = _Usual("smollm2-135m-instruct", "sharegpt", 20_000.0, 1500.0, 0.03)
"""On a machine with two processors."""
_SPEC = """\
# Every key is in docs/spec.md; `medley models`, `medley workloads` and `medley gpus` list what may be named.
apiVersion: medley/v1
kind: Fleet
name: {name}
models:
{models}
clouds:
{clouds}
"""
_MODEL = """\
  - model: {model}
    # The first token within ttft_ms and each one after it within tpot_ms, for 99 % of all requests.
    slo: {{ttft_ms: {ttft_ms:g}, tpot_ms: {tpot_ms:g}}}
    workload: {workload} # lengths of prompts and answers
    aggregated: true # prompts and answers on one instance where that is cheaper
    demand: {{requests_per_s: {rate:g}}} # `demand: metered`, or a `trace`, follows the day"""


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
    from control.planning.world import world_of

    clouds = cloud or ["aws"]
    usual = _HERE if clouds == [LOCAL] else _RENTED
    asked = {
        "workload": workload or usual.workload,
        "ttft_ms": usual.ttft_ms if ttft_ms is None else ttft_ms,
        "tpot_ms": usual.tpot_ms if tpot_ms is None else tpot_ms,
        "rate": usual.requests_per_s if requests_per_s is None else requests_per_s,
    }
    refuse_unwritable(path)
    if path.exists():
        raise ValueError(f"{path} is there already: name another file, or remove it")
    text = _SPEC.format(
        name=name or path.stem,
        models="\n".join(_MODEL.format(model=each, **asked) for each in model or [usual.model]),
        clouds="\n".join(_cloud(each) for each in clouds),
    )
    world_of(parse(text, str(path)), ())
    write_text(path, text)
    serve = f"medley up -f {path}" if clouds == [LOCAL] else f"medley apply -f {path}"
    typer.echo(f"wrote {path}; `medley plan -f {path}` says what it would cost, `{serve}` goes on from there")


def _cloud(cloud: str) -> str:
    region = _REGIONS.get(cloud)
    return f"  - cloud: {cloud}" + (f"\n    regions: [{region}] # leave it out for all of them" if region else "")
