"""The steps that `plan`, `explain` and `templates build` share, wired to the database, the clock and the terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from control.cli.output import write_text
from control.cli.progress import build_progress
from control.db.database import open_database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.planning.recipe import ListedRecipe, Recipe
from control.planning.recording import Recording, RecordingError, decode, encode
from control.planning.report import PlanReport
from control.planning.session import Session
from control.planning.templates import Templates
from control.planning.world import read_world
from templates_lib.json_source import read_json_source


@contextmanager
def session(database_url: str | None) -> Iterator[Session]:
    with open_database(database_url) as database, build_progress() as progress:
        try:
            yield Session(PostgresLibraries(database), PostgresPlans(database), progress, time.perf_counter)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what is built so far is stored; run the same command again to go on") from None


@contextmanager
def prepared(
    spec: Path | None, snapshot: Path | None, templates: Path | None, database_url: str | None
) -> Iterator[tuple[Session, Recording, Templates]]:
    """What to plan from, read before the database is touched so that a mistake is told at once."""
    if (spec is None) == (snapshot is None):
        raise ValueError("give either -f SPEC or --snapshot FILE")
    if templates is not None and snapshot is None:
        raise ValueError("--templates goes with --snapshot")
    world = read_world(spec) if spec else None
    recording = _read_recording(snapshot, templates) if snapshot else None
    with session(database_url) as opened:
        if world is not None:
            found = opened.record(world, datetime.now(UTC).isoformat(timespec="seconds"))
        else:
            assert recording is not None  # noqa: S101
            found = opened.replay(recording)
        yield opened, *found


def planned(
    spec: Path | None,
    snapshot: Path | None,
    templates: Path | None,
    database_url: str | None,
    *,
    save_snapshot: Path | None,
    baselines: bool,
) -> PlanReport:
    with prepared(spec, snapshot, templates, database_url) as (opened, recording, library):
        if save_snapshot is not None:
            write_text(save_snapshot, encode(recording).decode())
        return opened.plan(recording, library, baselines=baselines)


def _read_recording(path: Path, templates: Path | None) -> Recording:
    try:
        recording = decode(path.read_bytes(), str(path))
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None
    if templates is None:
        return recording
    if recording.recipe is not None:
        raise RecordingError(f"{path}: has its own recipe for templates; leave --templates out")
    listed = read_json_source(templates)
    return replace(recording, recipe=Recipe(listed=ListedRecipe(listed.classes, listed.templates)))
