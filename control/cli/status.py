"""`medley status`: fleets compared with their plans and objectives."""

import http.client
import math
import os
import urllib.request
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import opened
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, fitting_table, say

if TYPE_CHECKING:
    from control.fleet.fleet_status import FleetStatus, ModelStatus
    from control.fleet.kept_promises import KeptPromise
    from control.fleet.latency import GatewayFigures

_SPAN = timedelta(hours=1)
_TIMEOUT_S = 5.0
_MAX_BYTES = 16 << 20


def status(
    gateway: Annotated[
        str | None,
        typer.Option(help="URL of a gateway, for latencies. Default: the one of `medley up`.", show_default=False),
    ] = None,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show fleets that run: instances ready of those planned, load, TTFT and TPOT against their objectives, and what
    was promised beside what answers kept within the last hour; fleets that cannot be planned or run, and clouds that
    plans leave out, with the reason."""
    from control.db.fleets import PostgresFleets
    from control.fleet.kept_promises import kept_promises
    from control.fleet.live_instances import instance_views
    from control.fleet.recorded_statuses import fleet_statuses
    from control.market.cloud_status import cloud_statuses

    figures = figures_of(gateway) or {}
    with opened(database_url) as database:
        found = fleet_statuses(database, instance_views(database), figures)
        clouds = cloud_statuses(database)
        now = datetime.now(UTC)
        promises = {fleet.fleet: kept_promises(database, fleet.fleet, now - _SPAN, now) for fleet in found}
        trouble_of = {name: held.trouble for name, held in PostgresFleets(database).targets().items() if held.trouble}
    if emitted({"clouds": clouds, "fleets": found, "promises": promises, "trouble": trouble_of}, output):
        return
    if not found:
        typer.echo("No fleet runs: all recorded instances are terminated.")
    for fleet in found:
        _print(fleet)
        _print_promises(promises[fleet.fleet])
    for name, trouble in trouble_of.items():
        typer.echo(f"fleet {name} {trouble}")
    for cloud in clouds:
        if not cloud.fleets:  # `medley offers calls` shows those that nobody plans with
            continue
        if cloud.left_out:
            typer.echo(f"{cloud.cloud} is left out of plans: {cloud.left_out}")
        if cloud.failure and cloud.failure not in cloud.left_out:
            typer.echo(f"{cloud.cloud} did not answer with its offers: {cloud.failure}")


def figures_of(gateway: str | None) -> "dict[str, GatewayFigures] | None":
    """Ask a gateway, or that of `medley up`, for the figures of each model; None where it does not answer, which is
    said. Raises ValueError for what is no URL."""
    from control.db.location import home_directory
    from control.fleet.latency import gateway_figures
    from control.up.gateway_process import running_gateway
    from control.up.home import UpHome

    if gateway is None:
        running = running_gateway(UpHome(home_directory(os.environ) / "up"))
        if running is None:
            say("medley: no gateway runs here; name one with --gateway for latencies")
            return None
        gateway = running.url
    if not gateway.startswith(("http://", "https://")):
        raise ValueError(f"--gateway {gateway!r} is no URL; it looks like http://HOST:8000")
    try:
        with urllib.request.urlopen(f"{gateway.rstrip('/')}/metrics", timeout=_TIMEOUT_S) as answer:  # noqa: S310 - see above
            return gateway_figures(answer.read(_MAX_BYTES).decode())
    except (OSError, http.client.HTTPException, ValueError) as error:
        say(f"medley: gateway {gateway} does not answer with its metrics: {error}")
        return None


def _print(fleet: "FleetStatus") -> None:
    typer.echo(f"fleet {fleet.fleet}: plan {fleet.plan[:12]}, {fleet.usd_per_hour:,.3f} $/h")
    for key, rate in fleet.unmet.items():
        typer.echo(f"  the plan leaves {rate:.3g} requests/s of {key} unserved")
    right, rows = ("ready", "running", "waiting", "capacity/s"), []
    for model in fleet.models:
        for leg in model.legs:
            load = f"{leg.ready} of {leg.planned}", str(leg.running), str(leg.waiting)
            rows.append((model.model, leg.leg, *load, f"{leg.units_per_s:,.1f}", leg.unit))
    columns, to = ("model", "leg", *right, "unit"), console()
    to.print(fitting_table(columns, rows, to.width, right=right, spare=("unit", "waiting", "running")))
    for model in fleet.models:
        refused = f", {model.late_refusals} refused as late" if model.late_refusals else ""
        counts = f"{model.requests} requests, {model.resumptions} resumptions{refused}"
        typer.echo(f"{model.model}: {counts}; {latencies(model)}")


def _print_promises(promises: "Iterable[KeptPromise]") -> None:
    """Print what was promised beside what was kept, where anything was promised."""
    promises = tuple(promises)
    if not promises:
        return
    right, rows = ("promised", "simulated", "kept", "answers", "planned with"), []
    for each in promises:
        promise = f"{each.promised.percentile:g} %", f"{100 * each.promised.share:.2f} %"
        factor = "100 %" if each.correction is None else f"{100 * each.correction.factor:.3g} %"
        for one in each.objectives:
            kept = f"{100 * one.kept.share:.2f} % ({100 * one.kept.low:.2f}-{100 * one.kept.high:.2f})"
            answers = f"{one.kept.answers:,.0f}"
            rows.append((each.work_class, one.objective.upper(), *promise, kept, answers, factor))
        if not each.objectives:
            rows.append((each.work_class, "", *promise, "-", "0", factor))
    columns, to = ("promise", "objective", *right), console()
    to.print(fitting_table(columns, rows, to.width, right=right, spare=("planned with", "answers", "simulated")))
    for each in promises:
        correction = each.correction
        if correction is not None and correction.is_any:
            since = f"{correction.changed_at:%Y-%m-%d %H:%M} UTC"
            typer.echo(f"{each.work_class} is corrected since {since}: {correction.reason}")


def latencies(model: "ModelStatus") -> str:
    """Latencies beside their objectives, in words."""
    return f"{_against('TTFT', model.ttft_ms, model.ttft_slo_ms)}, {_against('TPOT', model.tpot_ms, model.tpot_slo_ms)}"


def _against(what: str, times_ms: "Mapping[str, float | None]", slo_ms: float | None) -> str:
    """Times by percentile beside their objective, and the first percentile that is above it."""
    shown = ", ".join(f"{name} {ms(value)}" for name, value in times_ms.items())
    late = (name for name, value in times_ms.items() if value is not None and slo_ms is not None and value > slo_ms)
    first = next(late, "")
    return f"{what} {shown} (SLO {ms(slo_ms)}{f', exceeded from {first} on' if first else ''})"


def ms(value: float | None) -> str:
    if value is None:
        return "-"
    return "beyond" if math.isinf(value) else f"{value:,.0f} ms"
