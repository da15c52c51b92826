"""The fleet of a spec file, applied: planned, shown, asked about and stored. `apply` and `reconcile` do it alike."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from control.given_name import DEFAULT_PROJECT, check_name
from control.lifecycle.fleet import FleetMode

if TYPE_CHECKING:
    from control.actions.context import ActionContext
    from control.actions.plan_change import PlanChange
    from control.db.database import Database
    from control.preflight.finding import Finding
    from control.preflight.planned import Planned
    from control.reconcile.fleet_planner import FleetPlanner

_TOP_REASONS = 3
ModeOption = Annotated[
    FleetMode | None,
    typer.Option(help="How far the control plane may go. Default: unchanged; observe for a new fleet."),
]
ProjectOption = Annotated[
    str | None,
    typer.Option(
        help=f"Project that pays for it. Default: unchanged; {DEFAULT_PROJECT} for a new fleet.", show_default=False
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
PreflightOption = Annotated[
    bool, typer.Option(help="Look at engines, weights, tokenizers and disks of what would be rented.")
]


@dataclass(frozen=True, slots=True)
class AskedFleet:
    """A fleet as a file and the options beside it ask for it; None: as it is, or as a new fleet is."""

    file: Path
    text: str
    mode: FleetMode | None
    project: str | None
    yes: bool
    preflight: bool

    @classmethod
    def read(cls, file: Path, mode: FleetMode | None, project: str | None, *, yes: bool, preflight: bool) -> Self:
        """Raises ValueError for what cannot be a project's name, SpecError for a file that is too large or no text,
        OSError for one that cannot be read."""
        from control.fleet_file.document import read_text

        if project is not None:
            check_name("project", project)
        return cls(file, read_text(file), mode, project, yes, preflight)


def apply_file(asked: AskedFleet, act: "ActionContext", planner: "FleetPlanner", next_step: str) -> None:
    """Plan the fleet, show what would change, ask, and store it. `next_step`: words for what carries its plan out.

    Raises what `apply_spec` and planning raise, SpecError for what is wrong in the file, typer.Abort for a no: nothing
    is stored then.
    """
    from control.actions.apply_spec import WantedFleet, apply_spec, refuse_failing
    from control.actions.plan_change import change_to
    from control.actions.projects import check_project
    from control.actions.refusal import NotNowError
    from control.cli.plan_table import against_cheapest
    from control.db.fleets import PostgresFleets
    from control.db.instances import PostgresInstances
    from control.db.registered_models import PostgresModels
    from control.fleet_file.document import parse
    from control.planning.world import world_of
    from control.preflight.planned import Planned

    database = act.database
    world = world_of(parse(asked.text, str(asked.file)), PostgresModels(database).own())
    wanted = WantedFleet(world, asked.text, str(asked.file.absolute().parent), asked.mode, asked.project)
    before = next((record for record in PostgresFleets(database).all() if record.name == world.name), None)
    record = wanted.record(before, act.now)
    check_project(database, record.project)
    confirmed = confirmed_loss(database, world.name, wanted.models, asked.yes)
    solved = planner.solve(record, PostgresInstances(database).living(), act.now, baselines=True)
    change = change_to(database, record, solved.world, solved.plan, solved.snapshot)
    show_change(change)
    verdict = against_cheapest(solved.report)
    typer.echo(f"the plan {verdict}" if verdict else "no baseline serves as much of the demand to compare it with")
    if record.mode is not FleetMode.OBSERVE:
        refused = f"fleet {record.name} is not applied in mode {record.mode.value}"
        if change.unrunnable:
            raise NotNowError(f"{refused}: no node can run it")
        if asked.preflight:
            refuse_failing(record.name, record.mode, _found(Planned(solved.world, solved.plan)))
        if not asked.yes:
            typer.confirm("Do this?", abort=True)
    apply_spec(act, wanted, before, confirmed, solved.plan.id, preflight=False)
    if record.mode is FleetMode.OBSERVE:
        mode_command = f"`medley fleets mode {record.name} auto`"
        typer.echo(f"Fleet {record.name} stored in mode observe: nothing is touched. {mode_command} changes that.")
    else:
        typer.echo(accepted(solved.plan.id, record.name, next_step))


def accepted(plan: str, fleet: str, next_step: str) -> str:
    return f"Plan {plan[:12]} accepted for fleet {fleet}; {next_step}."


def confirmed_loss(database: "Database", fleet: str, staying: Collection[str], yes: bool) -> Collection[str] | None:
    """Models that serve, would not any more, and may be drained; None: all."""
    from control.actions.lost_traffic import refuse_loss
    from control.actions.refusal import LosesTrafficError

    try:
        refuse_loss(database, fleet, staying, None if yes else ())
    except LosesTrafficError as error:
        typer.confirm(f"{error}. Go on?", abort=True)
        return error.models
    return None if yes else ()


def show_change(change: "PlanChange") -> None:
    """Print the steps to a plan, and what they do to dollars, capacity and requests."""
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


def _found(planned: "Planned") -> "Iterable[Finding]":
    """What is found of its models on rented nodes. Where the control plane runs, and what it may do, is not known
    here."""
    from control.preflight.models import of_models

    return of_models(planned) if planned.elsewhere else ()
