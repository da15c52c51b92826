"""`medley apply`, `medley approve`, `medley fleets`: what fleets are to serve, and which plan each follows."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.acting import acting, home, opened
from control.cli.guard import Commands
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emitted, table
from control.cli.time_text import utc
from control.given_name import DEFAULT_PROJECT, check_name
from control.lifecycle.fleet import FleetMode

if TYPE_CHECKING:
    from control.actions.plan_change import PlanChange
    from control.db.database import Database
    from control.fleet.fleet_status import FleetStatus
    from control.lifecycle.fleet import FleetRecord, FleetTarget
    from control.preflight.finding import Finding
    from control.preflight.planned import Planned

app = Commands(name="fleets", help="List and show fleets, set their modes, end them.", no_args_is_help=True)
_TOP_REASONS = 3
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
FleetArgument = Annotated[str, typer.Argument(help="Name of the fleet.")]


def apply(
    file: Annotated[Path, typer.Option("--file", "-f", help="Spec file (apiVersion: medley/v1, kind: Fleet).")],
    mode: Annotated[
        FleetMode | None,
        typer.Option(help="How far the control plane may go. Default: unchanged; observe for a new fleet."),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            help=f"Project that pays for it. Default: unchanged; {DEFAULT_PROJECT} for a new fleet.", show_default=False
        ),
    ] = None,
    yes: YesOption = False,
    preflight: Annotated[
        bool, typer.Option(help="Look at engines, weights, tokenizers and disks of what would be rented.")
    ] = True,
    database_url: DatabaseOption = None,
) -> None:
    """Create or change a fleet: plan it, show what would change in dollars, capacity and requests, and ask.

    In mode observe the plan is shown and nothing is touched. Otherwise `medley reconcile` applies what you confirm.
    What would fail on rented nodes is refused; `medley preflight` looks at accounts and addresses, too.
    """
    from control.actions.apply_spec import WantedFleet, apply_spec, refuse_failing
    from control.actions.plan_change import change_to
    from control.actions.projects import check_project
    from control.actions.refusal import NotNowError
    from control.cli.plan_table import against_cheapest
    from control.cli.progress import build_progress
    from control.db.fleets import PostgresFleets
    from control.db.instances import PostgresInstances
    from control.db.registered_models import PostgresModels
    from control.fleet_file.document import parse, read_text
    from control.planning.world import world_of
    from control.preflight.planned import Planned
    from control.reconcile.live_planner import live_planner
    from control.simulator.attainment import SimulatedAttainment

    if project is not None:
        check_name("project", project)
    text = read_text(file)
    with acting(database_url) as act, build_progress() as progress:
        database = act.database
        world = world_of(parse(text, str(file)), PostgresModels(database).own())
        wanted = WantedFleet(world, text, str(file.absolute().parent), mode, project)
        before = next((record for record in PostgresFleets(database).all() if record.name == world.name), None)
        record = wanted.record(before, act.now)
        check_project(database, record.project)
        confirmed = _confirmed(database, world.name, wanted.models, yes)
        planner = live_planner(database, home(), progress, SimulatedAttainment)
        solved = planner.solve(record, PostgresInstances(database).living(), act.now, baselines=True)
        change = change_to(database, record, solved.world, solved.plan, solved.snapshot)
        _show(change)
        verdict = against_cheapest(solved.report)
        typer.echo(f"the plan {verdict}" if verdict else "no baseline serves as much of the demand to compare it with")
        if record.mode is not FleetMode.OBSERVE:
            refused = f"fleet {record.name} is not applied in mode {record.mode.value}"
            if change.unrunnable:
                raise NotNowError(f"{refused}: no node can run it")
            if preflight:
                refuse_failing(record.name, record.mode, _found(Planned(solved.world, solved.plan)))
            if not yes:
                typer.confirm("Do this?", abort=True)
        apply_spec(act, wanted, before, confirmed, solved.plan.id, preflight=False)
    if record.mode is FleetMode.OBSERVE:
        mode_command = f"`medley fleets mode {record.name} auto`"
        typer.echo(f"Fleet {record.name} stored in mode observe: nothing is touched. {mode_command} changes that.")
    else:
        typer.echo(_accepted(solved.plan.id, record.name))


def approve(fleet: FleetArgument, yes: YesOption = False, database_url: DatabaseOption = None) -> None:
    """Show what the plan that waits for approval would change, and accept it."""
    from control.actions.decide_plan import approve_plan, waiting_change

    with acting(database_url) as act:
        change = waiting_change(act.database, fleet)
        _show(change)
        if not yes:
            typer.confirm("Do this?", abort=True)
        approve_plan(act, change.plan.id, change.mark)
    typer.echo(_accepted(change.plan.id, fleet))


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
        ended = end_fleet(act, fleet, _confirmed(act.database, fleet, (), yes))
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


def _found(planned: "Planned") -> "Iterable[Finding]":
    """What is found of its models on rented nodes. Where the control plane runs, and what it may do, is not known
    here."""
    from control.preflight.models import of_models

    return of_models(planned) if planned.elsewhere else ()


def _accepted(plan: str, fleet: str) -> str:
    return f"Plan {plan[:12]} accepted for fleet {fleet}; `medley reconcile` applies it."


def _confirmed(database: "Database", fleet: str, staying: Collection[str], yes: bool) -> Collection[str] | None:
    """Models that serve, would not any more, and may be drained; None: all."""
    from control.actions.lost_traffic import refuse_loss
    from control.actions.refusal import LosesTrafficError

    try:
        refuse_loss(database, fleet, staying, None if yes else ())
    except LosesTrafficError as error:
        typer.confirm(f"{error}. Go on?", abort=True)
        return error.models
    return None if yes else ()


def _show(change: "PlanChange") -> None:
    from control.diff.describe import describe

    diff, plan = change.diff, change.plan
    if diff.is_empty:
        typer.echo(f"nothing changes: {diff.usd_per_hour_after:.2f} $/h")
    for number, step in enumerate(diff.transition.steps, 1):
        typer.echo(f"step {number}")
        for line in describe(step):
            typer.echo(f"  {line}")
    for wait in diff.transition.stuck:
        typer.echo(f"  not possible: {wait.reason}")
    typer.echo(
        f"{diff.usd_per_hour_before:.2f} -> {diff.usd_per_hour_after:.2f} $/h (at most {diff.most_usd_per_hour:.2f} on "
        f"the way); {diff.kept} instances stay, {diff.launched} come, {diff.drained + diff.released} go, "
        f"{diff.requests_at_risk} requests are on those that go"
    )
    for name in sorted({*diff.units_per_s_before, *diff.units_per_s_after}):
        old, new = diff.units_per_s_before.get(name, 0.0), diff.units_per_s_after.get(name, 0.0)
        lost = diff.transition.promised_loss.get(name, 0.0)
        typer.echo(f"  {name}: {old:.4g} -> {new:.4g} units/s{f', {lost:.4g} missing on the way' if lost else ''}")
    for name, rate in sorted(plan.unmet.items()):
        typer.echo(f"  not met: {rate:.3g} requests/s of {name}")
    if plan.unmet:
        for reason in [reason for reason in plan.reasons if reason.kind not in ("unmet", "demand")][:_TOP_REASONS]:
            typer.echo(f"  - {reason.text}")
        typer.echo(f"  `medley explain {plan.id[:12]}` says what is missing")
    for why in change.unrunnable:
        typer.echo(f"  cannot be run: {why}")
