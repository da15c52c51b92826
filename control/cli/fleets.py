"""`medley apply`, `medley approve`, `medley fleets`: what is to be kept, and on which plan."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from control.cli.audit import did, who
from control.cli.guard import guarded
from control.cli.options import DatabaseOption
from control.cli.output import Output, OutputOption, console, emit
from control.given_name import DEFAULT_PROJECT, check_name
from control.lifecycle.fleet import FleetMode, FleetRecord, FleetTarget

if TYPE_CHECKING:
    from control.db.database import Database
    from control.diff.fleet_diff import FleetDiff
    from control.planning.world import World
    from templates_lib.values.plan import Plan

app = typer.Typer(
    name="fleets", help="Fleets on record: list them, say how far each may go, end them.", no_args_is_help=True
)
_TOP_REASONS = 3
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
FleetArgument = Annotated[str, typer.Argument(help="Name of the fleet.")]


def apply(
    file: Annotated[Path, typer.Option("--file", "-f", help="Spec file (apiVersion: medley/v1, kind: Fleet).")],
    mode: Annotated[
        FleetMode | None,
        typer.Option(help="How far the control plane may go. Default: as it is; observe if it is new."),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            help=f"Project that its cost is counted for. Default: as it is; {DEFAULT_PROJECT} if it is new.",
            show_default=False,
        ),
    ] = None,
    yes: YesOption = False,
    database_url: DatabaseOption = None,
) -> None:
    """Put a fleet on record, or change it: plan it, show what would change in dollars, capacity and requests, and ask.

    In mode observe the plan is shown and nothing is touched. Otherwise what is confirmed here is what
    `medley reconcile` does.
    """
    from control.cli.plan_table import against_cheapest
    from control.cli.progress import build_progress
    from control.cli.reconciling import fleet_planner
    from control.db.database import open_database
    from control.db.fleets import PostgresFleets
    from control.db.instances import PostgresInstances
    from control.fleet_file.document import read_text
    from control.planning.world import read_world
    from control.reconcile.difference import difference

    if project is not None:
        check_name("project", project)
    text, world = read_text(file), read_world(file)
    with open_database(database_url) as database, build_progress() as progress:
        fleets, now = PostgresFleets(database), datetime.now(UTC)
        before = next((record for record in fleets.all() if record.name == world.name), None)
        _ask_for_removed(database, before, world, yes)
        folder = str(file.absolute().parent)
        wished = mode or (FleetMode.OBSERVE if before is None else before.mode)
        counted_for = project or (DEFAULT_PROJECT if before is None else before.project)
        record = FleetRecord(world.name, counted_for, text, folder, wished, 0, False, now.isoformat())
        living, planner = PostgresInstances(database).living(), fleet_planner(database, progress)
        solved = planner.solve(record, living, now, baselines=True)
        plan, planned_for = solved.plan, solved.world
        _show(difference(database, record.name, planned_for.fleet, plan, solved.snapshot), planned_for, plan)
        verdict = against_cheapest(solved.report)
        typer.echo(f"the plan {verdict}" if verdict else "no baseline serves as much of the demand to compare it with")
        if wished is not FleetMode.OBSERVE and not yes:
            typer.confirm("Do this?", abort=True)
        with database.as_one() as one:
            _put(one, before, record, now)
            if wished is not FleetMode.OBSERVE:
                _accept(one, PostgresFleets(one).target(record.name), plan)
        if wished is FleetMode.OBSERVE:
            typer.echo(f"nothing is touched in mode observe (`medley fleets mode {record.name} auto` changes that)")
            return
    typer.echo(f"fleet {record.name} is held to plan {plan.id[:12]} from now on; `medley reconcile` does it")


def approve(fleet: FleetArgument, yes: YesOption = False, database_url: DatabaseOption = None) -> None:
    """Accept the plan that waits for approval, once its difference was shown."""
    from control.db.database import open_database
    from control.db.fleets import PostgresFleets
    from control.db.plans import PostgresPlans
    from control.db.registered_models import PostgresModels
    from control.reconcile.difference import difference
    from control.reconcile.fleet_world import world_of_record

    with open_database(database_url) as database:
        fleets, plans = PostgresFleets(database), PostgresPlans(database)
        record, target = fleets.load(fleet), fleets.target(fleet)
        if not target.proposed:
            raise ValueError(f"no plan of fleet {fleet} waits for approval")
        plan = plans.load(target.proposed)
        snapshot = plans.snapshot(plan.snapshot_version)
        world = world_of_record(record, PostgresModels(database).own())
        _show(difference(database, fleet, world.fleet, plan, snapshot), world, plan)
        if not yes:
            typer.confirm("Do this?", abort=True)
        with database.as_one() as one:
            _accept(one, target, plan)
    typer.echo(f"fleet {fleet} is held to plan {plan.id[:12]} from now on")


@app.command("list")
@guarded
def list_fleets(output: OutputOption = Output.TABLE, database_url: DatabaseOption = None) -> None:
    """All fleets, their modes and plans."""
    from rich.table import Table

    from control.db.database import open_database
    from control.db.fleets import PostgresFleets

    with open_database(database_url) as database:
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
    if output is not Output.TABLE:
        emit(rows, output)
        return
    table = Table("fleet", "project", "mode", "plan", "waits for approval", "changed", box=None)
    for row in rows:
        cells = (row["name"], row["project"], row["mode"], str(row["plan"])[:12], str(row["waits"])[:12])
        table.add_row(*map(str, cells), str(row["updated_at"])[:19])
    console().print(table if rows else "no fleet is on record: `medley apply -f SPEC` puts one there")


@app.command("mode")
@guarded
def mode(fleet: FleetArgument, mode: FleetMode, database_url: DatabaseOption = None) -> None:
    """Say how far the control plane may go: observe, approve or auto."""
    from control.db.database import open_database
    from control.db.fleets import PostgresFleets

    now = datetime.now(UTC)
    with open_database(database_url) as database, database.as_one() as one:
        fleets = PostgresFleets(one)
        fleets.change(fleet, fleets.load(fleet).version, now, mode=mode)
        did(one, now, "fleet.changed", f"set mode {mode.value}", fleet=fleet, subject=fleet)
    typer.echo(f"fleet {fleet} is in mode {mode.value}")


@app.command("end")
@guarded
def end(fleet: FleetArgument, yes: YesOption = False, database_url: DatabaseOption = None) -> None:
    """Drain and give back everything of a fleet, and take it off the record."""
    from control.db.database import open_database
    from control.db.fleets import PostgresFleets
    from control.db.instances import PostgresInstances

    with open_database(database_url) as database:
        fleets = PostgresFleets(database)
        record, running = fleets.load(fleet), PostgresInstances(database).of_fleet(fleet)
        if running and not yes:
            typer.confirm(f"{len(running)} instances of {fleet} are drained and given back. Do this?", abort=True)
        now = datetime.now(UTC)
        with database.as_one() as one:
            PostgresFleets(one).change(fleet, record.version, now, ending=True)
            did(one, now, "fleet.removed", f"ended fleet {fleet}", fleet=fleet, subject=fleet)
    typer.echo(f"fleet {fleet} is being ended; `medley reconcile` does it")


def _put(database: "Database", before: FleetRecord | None, record: FleetRecord, now: datetime) -> None:
    from control.db.fleets import PostgresFleets
    from control.db.projects import PostgresProjects

    name, fleets = record.name, PostgresFleets(database)
    PostgresProjects(database).ensure(record.project, now)
    if before is None:
        fleets.create(name, record.spec, now, record.folder, record.project, record.mode)
        did(database, now, "fleet.created", f"created fleet {name} in mode {record.mode}", fleet=name, subject=name)
        return
    fleets.change(
        name,
        before.version,
        now,
        spec=record.spec,
        folder=record.folder,
        project=record.project,
        mode=record.mode,
        ending=False,
    )
    did(database, now, "fleet.changed", f"applied a spec, in mode {record.mode}", fleet=name, subject=name)


def _accept(database: "Database", target: "FleetTarget", plan: "Plan") -> None:
    from control.db.fleets import PostgresFleets

    PostgresFleets(database).accept(target, plan.id, who(), f"{plan.usd_per_hour:.2f} $/h", datetime.now(UTC))


def _ask_for_removed(database: "Database", before: "FleetRecord | None", now: "World", yes: bool) -> None:
    """A model that serves somebody does not go because a line was lost."""
    from control.fleet.live_instances import views_of_fleet

    if before is None or yes:
        return
    stay = {app.name for app in now.fleet.apps}
    busy = [view for view in views_of_fleet(database, before.name) if view.model not in stay and view.state == "ready"]
    if busy:
        names, requests = ", ".join(sorted({view.model for view in busy})), sum(v.running + v.waiting for v in busy)
        typer.confirm(
            f"{names} of fleet {before.name} would not be served any more ({len(busy)} instances, {requests} requests "
            "now). Go on?",
            abort=True,
        )


def _show(diff: "FleetDiff", world: "World", plan: "Plan") -> None:
    from control.diff.describe import describe
    from control.reconcile.ordering import unrunnable

    if diff.is_empty:
        typer.echo(f"nothing changes: {diff.usd_per_hour_after:.2f} $/h")
    for number, step in enumerate(diff.transition.steps, 1):
        typer.echo(f"step {number}")
        for line in describe(step):
            typer.echo(f"  {line}")
    for wait in diff.transition.stuck:
        typer.echo(f"  not done: {wait.reason}")
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
    for why in unrunnable(world, plan):
        typer.echo(f"  cannot be run: {why}")
