"""What a recorded span would have come to under another policy, beside what it came to."""

import os
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.registered_models import PostgresModels
from control.fleet_file.document import parse, read_text
from control.lifecycle.fleet import FleetRecord
from control.planning.local_profiles import with_known_profiles
from control.planning.world import World, world_of
from control.reconcile.fleet_world import world_of_record
from control.simulator.fleet_run import Around
from control.simulator.replay.change import Change
from control.simulator.replay.course import Course
from control.simulator.replay.recorded_course import recorded_course
from control.simulator.replay.recorded_market import recorded_market
from control.simulator.replay.rerun import Subject, rerun
from control.simulator.replay.span import read_span, refuse_unheard
from control.simulator.report.over_time import epochs

_STEP_S, _SHORT_STEP_S = 3600.0, 600.0
_SHORT_S = 6 * 3600.0
"""Spans up to this are told in shorter steps."""


@dataclass(frozen=True, slots=True)
class Asked:
    fleet: str
    since: datetime
    until: datetime
    spec: Path | None
    """Another one than is on record; None: that one."""
    change: Change
    seed: int

    @property
    def policy(self) -> tuple[str, ...]:
        """What is not as it was, in words; empty: nothing."""
        return (*((f"spec {self.spec.name}",) if self.spec else ()), *self.change.words)


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    asked: Asked
    happened: Course
    replayed: Course
    plans: tuple[tuple[float, float], ...]
    """(seconds since the span began, $/h) of every plan of the replay."""
    troubles: tuple[str, ...]
    notes: tuple[str, ...]


def replay(database: Database, asked: Asked, now: datetime, home: Path, around: Around) -> Replay:
    """`database` is read only, but for libraries that are not built yet. `home`: where profiles of this machine are.

    Raises NotStoredError for an unknown fleet, NotRecordedError for a span that is not on record whole, SpecError for a
    spec that cannot be read, ValueError for a fleet that cannot be planned, DatabaseUnavailableError.
    """
    record, own = PostgresFleets(database).load(asked.fleet), PostgresModels(database).own()
    then = with_known_profiles(world_of_record(record, own), home)
    subject = _subject(asked, record, then, database, home)
    span = read_span(
        database, asked.fleet, asked.since, asked.until, now, timedelta(minutes=then.fleet.reconcile.replan_minutes)
    )
    refuse_unheard(span, {rule.metered for rule in subject.world.fleet.demand_rules})
    market = recorded_market(database, span, subject.world)
    subject = replace(subject, world=replace(subject.world, quotes=market.quotes))
    edges_s = epochs(span.length_s, _SHORT_STEP_S if span.length_s <= _SHORT_S else _STEP_S)
    was = recorded_course(database, span, then, edges_s)
    found = rerun(database, span, subject, market, edges_s, around, asked.seed)
    notes = (*_spec_notes(record, asked), *found.notes)
    return Replay(asked, was, found.course, found.plans, found.troubles, notes)


def _subject(asked: Asked, record: FleetRecord, then: World, database: Database, home: Path) -> Subject:
    world, spec, folder = then, record.spec, record.folder
    if asked.spec is not None:
        spec, folder = read_text(asked.spec), os.fspath(asked.spec.absolute().parent)
        world = with_known_profiles(world_of(parse(spec, str(asked.spec)), PostgresModels(database).own()), home)
        _refuse_stranger(asked, then, world)
    world = replace(world, fleet=replace(asked.change.applied(world.fleet), name=asked.fleet))
    return Subject(world, spec, folder, asked.change.strategy)


def _refuse_stranger(asked: Asked, then: World, world: World) -> None:
    known = {app.name for app in then.fleet.every_app}
    strangers = sorted({rule.model for rule in world.fleet.demand_rules} - known)
    if strangers:
        raise ValueError(
            f"{asked.spec}: fleet {asked.fleet} did not serve {', '.join(strangers)}, so that nobody knows what would "
            f"have been asked of it; it serves {', '.join(sorted(known))}"
        )


def _spec_notes(record: FleetRecord, asked: Asked) -> tuple[str, ...]:
    changed = datetime.fromisoformat(record.updated_at)
    if changed <= asked.since:
        return ()
    at = changed.strftime("%Y-%m-%d %H:%M")
    return (f"The fleet's record was changed at {at} UTC, after the span began: the replay has it as it is now.",)
