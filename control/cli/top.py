"""`medley top`: what fleets do now, renewed as long as one looks."""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import opened
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, fitting_table
from control.cli.status import figures_of, ms
from control.cli.time_text import at

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

    from control.db.database import Database
    from control.fleet.fleet_status import FleetStatus
    from control.fleet.instance_view import InstanceView
    from control.fleet.latency import GatewayFigures, Histogram


@dataclass(frozen=True, slots=True)
class Rates:
    """What a gateway did for one model within a span."""

    requests_per_s: float
    """That had their first token."""
    tokens_per_s: float
    ttft_ms: Mapping[str, float | None]
    """By percentile; None: no request."""
    tpot_ms: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Look:
    at: str
    span_s: float
    fleets: "list[FleetStatus]"
    instances: "list[InstanceView]"
    rates: Mapping[str, Rates] | None
    """By model; None unless the gateway answered at both ends of the span."""


def top(
    gateway: Annotated[
        str | None, typer.Option(help="URL of a gateway. Default: the one of `medley up`.", show_default=False)
    ] = None,
    every_s: Annotated[
        float, typer.Option("--every", min=0.5, max=3600, help="Seconds between two looks, which rates are of.")
    ] = 2.0,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show what fleets do now: requests and tokens per second, latencies, load and KV cache, until Ctrl-C.

    Without a terminal, or with `-o json` or `yaml`, one look, and nothing more.
    """
    from rich.live import Live

    with opened(database_url) as database:
        before, began_s = figures_of(gateway), time.monotonic()
        shown = console()
        if output is not Output.TABLE or not _renews(shown):
            time.sleep(every_s)
            look = _look(database, before, figures_of(gateway), time.monotonic() - began_s)
            if not emitted(look, output):
                shown.print(_drawn(look, shown.width))
            return
        with suppress(KeyboardInterrupt), Live(console=shown, auto_refresh=False) as live:
            while True:
                time.sleep(every_s)
                figures, now_s = figures_of(gateway), time.monotonic()
                look = _look(database, before, figures, now_s - began_s)
                live.update(_drawn(look, shown.width, "; Ctrl-C ends"), refresh=True)
                before, began_s = figures, now_s


def _renews(shown: "Console") -> bool:
    """Tell whether a look can be drawn over the one before: not into a pipe or a file, even where colours are asked for
    there, and not on a terminal that cannot move its cursor."""
    return sys.stdout.isatty() and not shown.is_dumb_terminal


def _look(
    database: "Database",
    before: "Mapping[str, GatewayFigures] | None",
    figures: "Mapping[str, GatewayFigures] | None",
    span_s: float,
) -> Look:
    from control.fleet.live_instances import instance_views
    from control.fleet.recorded_statuses import fleet_statuses

    views = instance_views(database)
    rates = None
    if before is not None and figures is not None:
        rates = {model: _rates(before.get(model), each, span_s) for model, each in figures.items()}
    return Look(at(datetime.now(UTC)), span_s, fleet_statuses(database, views, {}), views, rates)


def _rates(before: "GatewayFigures | None", now: "GatewayFigures", span_s: float) -> Rates:
    """A model that was not there at the look before has had nothing until then."""
    ttft = now.ttft_s if before is None else now.ttft_s.since(before.ttft_s)
    tpot = now.tpot_s if before is None else now.tpot_s.since(before.tpot_s)
    known = 0.0 if before is None or before.output_tokens > now.output_tokens else before.output_tokens
    tokens = now.output_tokens - known

    def percentiles(histogram: "Histogram") -> dict[str, float | None]:
        found = {f"p{percent}": histogram.percentile(percent) for percent in (50, 99)}
        return {name: None if seconds is None else 1000 * seconds for name, seconds in found.items()}

    return Rates(ttft.total / span_s, tokens / span_s, percentiles(ttft), percentiles(tpot))


def _drawn(look: Look, width: int, end: str = "") -> "Group":
    from rich.console import Group

    head = f"{look.at} UTC, the last {look.span_s:.1f} s{end}"
    if not look.instances:
        return Group(head, "No instance runs: all that are recorded are terminated.")
    return Group(head, *_fleets(look), _models(look, width), _instances(look, width))


def _fleets(look: Look) -> list[str]:
    return [f"fleet {each.fleet}: plan {each.plan[:12]}, {each.usd_per_hour:,.4f} $/h" for each in look.fleets]


def _models(look: Look, width: int) -> "Table":
    right, rows = ("ready", "load", "req/s", "tok/s", "TTFT p50", "p99", "TPOT p50"), []
    for fleet in look.fleets:
        for model in fleet.models:
            ready, planned = (sum(getattr(leg, name) for leg in model.legs) for name in ("ready", "planned"))
            load = f"{sum(leg.running for leg in model.legs)}+{sum(leg.waiting for leg in model.legs)}"
            rates = (look.rates or {}).get(model.model)
            figures = ("", "", "", "", "") if rates is None else _figures(rates)
            rows.append((model.model, f"{ready} of {planned}", load, *figures))
    return fitting_table(("model", *right), rows, width, right=right, spare=("load", "ready", "TTFT p50"))


def _figures(rates: Rates) -> tuple[str, ...]:
    return (
        f"{rates.requests_per_s:.1f}",
        f"{rates.tokens_per_s:,.1f}",
        ms(rates.ttft_ms["p50"]),
        ms(rates.ttft_ms["p99"]),
        ms(rates.tpot_ms["p50"]),
    )


def _instances(look: Look, width: int) -> "Table":
    right, rows = ("load", "KV", "cpu", "MiB"), []
    for view in look.instances:
        kv = "" if view.kv_used is None else f"{view.kv_used:.0%}"
        cpu = sum(node.cpu_share or 0.0 for node in view.nodes)
        memory_mib = sum(node.memory_mib or 0 for node in view.nodes)
        load = f"{view.running}+{view.waiting}"
        rows.append((view.id, view.model, view.leg, view.state, load, kv, f"{cpu:.2f}", f"{memory_mib:,}"))
    columns = ("instance", "model", "leg", "state", *right)
    return fitting_table(columns, rows, width, right=right, spare=("MiB", "cpu", "model", "leg"))
