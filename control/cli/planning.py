"""The steps that `plan`, `explain` and `templates build` share, wired to the database, the clock and the terminal."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from control.cli.output import say, write_text
from control.cli.progress import build_progress
from control.cost.spending_limit import spending_limit
from control.db.database import Database, open_database
from control.db.errors import NotStoredError
from control.db.fleets import PostgresFleets
from control.db.libraries import PostgresLibraries
from control.db.location import home_directory
from control.db.plans import PostgresPlans
from control.given_name import DEFAULT_PROJECT
from control.market.view import StoredMarket
from control.planning.easier_promise import easier_promises
from control.planning.local_profiles import with_known_profiles
from control.planning.nearest_objective import nearest_kept
from control.planning.objective_costs import ObjectiveCosts
from control.planning.recipe import Recipe
from control.planning.recording import Recording, RecordingError, encode, read_plan, read_recording
from control.planning.report import PlanReport
from control.planning.session import PlanningSession
from control.planning.templates import Templates, UnservableError
from control.planning.within_budget import within_budget
from control.planning.world import World, read_world
from control.simulator.attainment import SimulatedAttainment
from templates_lib.values.library import Library
from templates_lib.values.plan import Plan, Reason
from templates_lib.values.snapshot import Snapshot

_Made = tuple[Recording, Templates, PlanReport]


@contextmanager
def session(database_url: str | None) -> Iterator[PlanningSession]:
    with _opened(database_url) as (opened, _):
        yield opened


@contextmanager
def _opened(database_url: str | None) -> Iterator[tuple[PlanningSession, Database]]:
    with open_database(database_url) as database, build_progress() as progress:
        try:
            yield (
                PlanningSession(
                    PostgresLibraries(database),
                    PostgresPlans(database),
                    progress,
                    time.perf_counter,
                    attainment=SimulatedAttainment,
                ),
                database,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what is built so far is stored; run the same command again to go on") from None


@contextmanager
def _made(
    spec: Path | None, snapshot: Path | None, templates: Path | None, database_url: str | None, baselines: bool
) -> Iterator[tuple[PlanningSession, _Made]]:
    """Plan, and yield what was planned. Files are read before the database is opened so that mistakes show at once."""
    if (spec is None) == (snapshot is None):
        raise ValueError("give either -f SPEC or --snapshot FILE")
    if templates is not None and snapshot is None:
        raise ValueError("--templates goes with --snapshot")
    if spec is not None:
        read_world(spec)
    recording = read_recording(snapshot, templates) if snapshot else None
    with _opened(database_url) as (opened, database):
        if spec is not None:
            yield opened, _within_budget(opened, database, spec, baselines)
            return
        assert recording is not None  # noqa: S101
        recording, found = opened.replay(recording.before())
        yield opened, (recording, found, _solved(opened, recording, found, baselines))


def _solved(opened: PlanningSession, recording: Recording, templates: Templates, baselines: bool) -> PlanReport:
    """Plan, and say what would help where a promise is missed or leaves models without instances."""

    def advised(plan: Plan, snapshot: Snapshot) -> tuple[Reason, ...]:
        if recording.recipe is None:
            return ()
        costs = ObjectiveCosts(opened, recording.recipe, snapshot, templates.library)
        return easier_promises(costs, plan, lambda: say("medley: looking for an easier objective that could be kept"))

    return opened.plan(recording, templates, baselines=baselines, advise=advised)


def _within_budget(opened: PlanningSession, database: Database, spec: Path, baselines: bool) -> _Made:
    """Plan a spec as the reconcile loop would: within what budgets leave to a fleet of its name."""
    now = datetime.now(UTC)
    world = with_known_profiles(read_world(spec, StoredMarket.read(database, now)), home_directory(os.environ))

    def made(world: World) -> _Made:
        at = now.isoformat(timespec="seconds")
        try:
            recording, found = opened.record(world, at)
        except UnservableError as error:
            nearest = nearest_kept(opened, world, at)
            raise UnservableError(f"{error}\n{nearest}" if nearest else str(error)) from None
        return recording, found, _solved(opened, recording, found, baselines)

    try:
        project = PostgresFleets(database).load(world.name).project
    except NotStoredError:
        project = DEFAULT_PROJECT
    limit = spending_limit(database, world.name, project, now)
    within = within_budget(world, limit.allowed, limit.in_force, made, lambda each: each[2].plan)
    recording, found, report = within.solved
    basis = replace(report.basis, notes=(*report.basis.notes, *within.taken.reasons))
    return recording, found, replace(report, basis=basis)


def planned(
    spec: Path | None,
    snapshot: Path | None,
    templates: Path | None,
    database_url: str | None,
    *,
    save_snapshot: Path | None,
    baselines: bool,
) -> PlanReport:
    with _made(spec, snapshot, templates, database_url, baselines) as (_, (recording, _, report)):
        if save_snapshot is not None:
            write_text(save_snapshot, encode(recording.planned_on(report.snapshot)).decode())
        return report


@dataclass(frozen=True, slots=True, eq=False)
class PlanInContext:
    """A stored plan with all that it was made from."""

    name: str
    plan: Plan
    snapshot: Snapshot
    library: Library
    recipe: Recipe | None = None
    """Recipe of its library; None where nobody said it."""


@contextmanager
def kept(
    plan: str, snapshot: Path | None, templates: Path | None, database_url: str | None
) -> Iterator[tuple[PlanningSession, PlanInContext]]:
    """`plan` is the id of a kept plan, or its beginning, or a plan's file. Without `snapshot` its snapshot is the one
    that the database keeps."""
    is_file = plan.endswith(".json") or Path(plan).exists()
    given = read_plan(Path(plan)) if is_file else None
    recording = read_recording(snapshot, templates) if snapshot else None
    with session(database_url) as opened:
        found = opened.plans.find(plan) if given is None else None
        made = opened.plans.load(found.id) if found else given
        assert made is not None  # noqa: S101 - it is in a file or in the database
        if recording is not None:
            recording, library = opened.replay(recording)
            if recording.snapshot.version != made.snapshot_version:
                raise RecordingError(
                    f"{snapshot}: is snapshot {recording.snapshot.version}, but the plan was made on "
                    f"{made.snapshot_version}"
                )
            yield opened, PlanInContext(recording.name, made, recording.snapshot, library.library, recording.recipe)
            return
        world = opened.plans.snapshot(made.snapshot_version)
        running = {i.template_id for i in world.instances}
        name = found.name if found else opened.plans.find(made.id).name
        yield opened, PlanInContext(name, made, world, opened.store.load(made.library_version, running))


@contextmanager
def made_now(
    spec: Path | None, snapshot: Path | None, templates: Path | None, database_url: str | None
) -> Iterator[tuple[PlanningSession, PlanInContext]]:
    """Make a plan, and return it with all that it was made from."""
    with _made(spec, snapshot, templates, database_url, baselines=False) as (opened, (recording, library, report)):
        made = PlanInContext(recording.name, report.plan, report.snapshot, library.library, recording.recipe)
        yield opened, made
