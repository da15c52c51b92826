"""`medley apply`, `medley approve`, `medley fleets`: what fleets are to serve, and which plan each follows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import acting, home, opened
from control.cli.applying import (
    AskedFleet,
    ModeOption,
    PreflightOption,
    ProjectOption,
    YesOption,
    accepted,
    apply_file,
    confirmed_loss,
    show_change,
)
from control.cli.guard import Commands
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table
from control.cli.time_text import utc
from control.lifecycle.fleet import FleetMode

if TYPE_CHECKING:
    from control.fleet.fleet_status import FleetStatus
    from control.lifecycle.fleet import FleetRecord, FleetTarget

app = Commands(name="fleets", help="List and show fleets, set their modes, end them.", no_args_is_help=True)
_BY_RECONCILE = "`medley reconcile` applies it"
FleetArgument = Annotated[str, typer.Argument(help="Name of the fleet.")]


def apply(
    file: Annotated[Path, typer.Option("--file", "-f", help="Spec file (apiVersion: medley/v1, kind: Fleet).")],
    mode: ModeOption = None,
    project: ProjectOption = None,
    yes: YesOption = False,
    preflight: PreflightOption = True,
    database_url: DatabaseOption = None,
) -> None:
    """Create or change a fleet: plan it, show what would change in dollars, capacity and requests, and ask.

    In mode observe the plan is shown and nothing is touched. Otherwise `medley reconcile` applies what you confirm;
    `medley reconcile -f SPEC` does both. What would fail on rented nodes is refused; `medley preflight` looks at
    accounts and addresses, too.
    """
    from control.cli.progress import build_progress
    from control.reconcile.live_planner import live_planner
    from control.simulator.attainment import SimulatedAttainment

    asked = AskedFleet.read(file, mode, project, yes=yes, preflight=preflight)
    with acting(database_url) as act, build_progress() as progress:
        planner = live_planner(act.database, home(), progress, SimulatedAttainment)
        apply_file(asked, act, planner, _BY_RECONCILE)


def approve(fleet: FleetArgument, yes: YesOption = False, database_url: DatabaseOption = None) -> None:
    """Show what the plan that waits for approval would change, and accept it."""
    from control.actions.decide_plan import approve_plan, waiting_change

    with acting(database_url) as act:
        change = waiting_change(act.database, fleet)
        show_change(change)
        if not yes:
            typer.confirm("Do this?", abort=True)
        approve_plan(act, change.plan.id, change.mark)
    typer.echo(accepted(change.plan.id, fleet, _BY_RECONCILE))


@app.command("list")
def list_fleets(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """List fleets with their modes and plans."""
    from control.db.fleets import PostgresFleets

    with opened(database_url) as database:
        fleets = PostgresFleets(database)
        targets = fleets.targets()
        rows = [
            {
                "name": record.name,
                "project": record.project,
                "mode": "ending" if record.ending else record.mode.value,
                "version": record.version,
                "plan": targets[record.name].accepted,
                "waits": targets[record.name].proposed,
                "updated_at": record.updated_at,
            }
            for record in fleets.all()
        ]
    if emitted(rows, output):
        return
    shown = table("fleet", "project", "mode", "plan", "waits for approval", "changed")
    for row in rows:
        cells = (row["name"], row["project"], row["mode"], str(row["plan"])[:12], str(row["waits"])[:12])
        shown.add_row(*map(str, cells), utc(str(row["updated_at"])))
    console().print(shown if rows else "No fleet exists: `medley apply -f SPEC` creates one.")


@app.command("show")
def show(
    fleet: FleetArgument,
    spec: Annotated[bool, typer.Option("--spec", help="Print its spec as it was stored, and nothing else.")] = False,
    output: OutputOption = Output.TABLE,
    database_url: DatabaseOption = None,
) -> None:
    """Show one fleet: its mode, the plan that it follows, what that costs, and how much of it runs."""
    from control.db.fleets import PostgresFleets
    from control.fleet.live_instances import views_of_fleet
    from control.fleet.recorded_statuses import fleet_statuses

    with opened(database_url) as database:
        stored = PostgresFleets(database)
        record, target = stored.load(fleet), stored.target(fleet)
        views = views_of_fleet(database, fleet)
        statuses = fleet_statuses(database, views, {})
    if spec:
        typer.echo(record.spec.rstrip())
        return
    if not emitted({"fleet": record, "target": target, "status": statuses, "instances": views}, output):
        _print_fleet(record, target)
        for status in statuses:
            _print_status(status)
        typer.echo("`--spec` prints its spec, `medley status` shows its latencies.")


@app.command("mode")
def mode(
    fleet: FleetArgument,
    mode: FleetMode,
    preflight: Annotated[
        bool, typer.Option(help="Look at where the weights of its models are, if it is to act.")
    ] = True,
    database_url: DatabaseOption = None,
) -> None:
    """Set how far the control plane may go: observe, approve or auto."""
    from control.actions.apply_spec import set_mode

    with acting(database_url) as act:
        set_mode(act, fleet, mode, preflight=preflight)
    typer.echo(f"Fleet {fleet} is in mode {mode.value}.")


@app.command("end")
def end(fleet: FleetArgument, yes: YesOption = False, database_url: DatabaseOption = None) -> None:
    """Drain and release all instances of a fleet, and remove it."""
    from control.actions.end_fleet import end_fleet

    with acting(database_url) as act:
        ended = end_fleet(act, fleet, confirmed_loss(act.database, fleet, (), yes))
    if ended.draining:
        typer.echo(f"Fleet {fleet} is ending: `medley reconcile` drains its {ended.draining} instances.")
    else:
        typer.echo(f"Fleet {fleet} ended: nothing of it ran.")


def _print_fleet(record: "FleetRecord", target: "FleetTarget") -> None:
    mode = "ending" if record.ending else record.mode.value
    typer.echo(f"fleet {record.name} of project {record.project}: mode {mode}")
    typer.echo(f"  version {record.version}, changed {utc(record.updated_at)}")
    if target.accepted:
        by = f" by {target.accepted_by}" if target.accepted_by else ""
        typer.echo(f"  follows plan {target.accepted[:12]}, accepted {utc(target.accepted_at)}{by}")
    else:
        typer.echo(f"  follows no plan: `medley fleets mode {record.name} auto` has one made and followed")
    if target.proposed:
        typer.echo(
            f"  plan {target.proposed[:12]} waits since {utc(target.proposed_at)}: `medley approve {record.name}`"
        )
    if target.trouble:
        typer.echo(f"  it {target.trouble}")


def _print_status(status: "FleetStatus") -> None:
    # Not always the plan that is followed: instances of an accepted one may be still to come.
    typer.echo(f"  has instances of plan {status.plan[:12]}, which costs {status.usd_per_hour:,.4f} $/h")
    for name, rate in status.unmet.items():
        typer.echo(f"  the plan leaves {rate:.3g} requests/s of {name} unserved")
    right = ("ready", "load", "capacity/s", "demand/s")
    shown = table("model", "leg", *right, "unit", right=right)
    for model in status.models:
        for leg in model.legs:
            rates = f"{leg.units_per_s:,.1f}", f"{leg.demand_units_per_s:,.1f}"
            load = f"{leg.ready} of {leg.planned}", f"{leg.running}+{leg.waiting}"
            shown.add_row(model.model, leg.leg, *load, *rates, leg.unit)
    console().print(shown)
