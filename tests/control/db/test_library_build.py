"""A build keeps every finished unit, whatever interrupts it, and never builds one twice."""

import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text

from control.db.database import Database
from control.db.errors import LibraryConflictError
from control.db.libraries import PostgresLibraries
from control.planning.templates import build_library
from templates_lib.ports.source import TemplateBatch
from tests.control.db.processes import end_input, line, start, wait_until
from tests.control.db.random_source import RandomSource

BUILD = """
import sys
from pathlib import Path
from control.db.database import open_database
from control.db.libraries import PostgresLibraries
from control.planning.templates import build_library
from tests.control.db.random_source import RandomSource
with open_database(sys.argv[1]) as database:
    source = RandomSource(sizes=(50, 60, 70, 80), journal=Path(sys.argv[2]))
    print(build_library(source, PostgresLibraries(database), lambda *_: None), flush=True)
"""
SIZES = (50, 60, 70, 80)


def ignore(what: str, done: int, total: int) -> None:
    pass


def waiting(database: Database, event: str) -> bool:
    """Whether a session of this database waits for a lock of this kind."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = :event"
    with database.transaction() as connection:
        return connection.execute(text(query), {"event": event}).scalar_one() > 0


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_a_build_that_is_killed_while_it_stores_a_unit_goes_on_with_that_unit(
    database: Database, database_url: str, tmp_path: Path, by: signal.Signals
) -> None:
    store, journal = PostgresLibraries(database), tmp_path / "journal"
    source = RandomSource(SIZES, journal=journal)
    with store.building(source, {}) as build:
        build.add(source.batch("unit-1"), 0.5)
    # The process blocks where its unit's templates are written and its capacities are not.
    with database.session() as blocker:
        blocker.execute(text("BEGIN; LOCK TABLE capacity IN EXCLUSIVE MODE"))
        process = start(BUILD, database_url, str(journal))
        wait_until(lambda: waiting(database, "relation"))
        process.send_signal(by)
        process.communicate()
        assert process.returncode != 0
        blocker.execute(text("COMMIT"))
    with store.building(source, {}) as build:
        assert build.missing == ("unit-0", "unit-2", "unit-3")
    (info,) = store.libraries()
    assert (info.version, [u.name for u in info.units if u.done]) == ("", ["unit-1"])
    assert store.find(source.fingerprint) is None

    version = build_library(source, store, ignore)
    assert store.load(version).size == sum(SIZES)
    assert journal.read_text().split() == ["unit-3", "unit-3", "unit-2", "unit-0"]


def test_two_builders_of_one_library_take_turns(database: Database, database_url: str, tmp_path: Path) -> None:
    store, journal = PostgresLibraries(database), tmp_path / "journal"
    source = RandomSource(SIZES)
    with store.building(source, {}) as build:
        other = start(BUILD, database_url, str(journal))
        wait_until(lambda: waiting(database, "advisory"))
        build.add(source.batch("unit-2"), 0.5)
        assert not journal.exists()
    version = line(other)
    end_input(other)
    assert journal.read_text().split() == ["unit-3", "unit-1", "unit-0"]
    assert store.find(source.fingerprint) == version
    assert build_library(source, store, ignore) == version
    assert source.built == []


def test_libraries_of_two_sources_are_built_at_once(database: Database) -> None:
    store, one, two = PostgresLibraries(database), RandomSource(seed=1), RandomSource(seed=2)
    with store.building(one, {}) as first, store.building(two, {}) as second:
        for unit in one.units():
            first.add(one.batch(unit), 0.5)
            second.add(two.batch(unit), 0.5)
        assert first.finish() != second.finish()


def test_a_library_says_what_it_was_made_of(database: Database) -> None:
    store, source, seen = PostgresLibraries(database), RandomSource(), []
    clock = iter([10.0, 12.0, 12.5, 16.0])
    version = build_library(source, store, lambda *step: seen.append(step), {"n_max": 6, "rho": 12.5}, clock.__next__)
    assert seen == [("random templates", done, 3) for done in (1, 2, 3)]
    info = store.show(version)
    assert store.libraries() == (info,)
    assert (info.kind, info.fingerprint) == ("random", source.fingerprint)
    assert (info.configs, info.classes) == (source.configs, source.classes)
    assert info.parameters == {"n_max": 6, "rho": 12.5}
    assert (info.sets, info.templates, info.kept, info.seconds) == (36, 24, 12, 6.0)
    assert [u.seconds for u in info.units] == [3.5, 0.5, 2.0], "the last unit was built first"
    assert [u.name for u in info.units] == list(source.units())
    assert info.created_at <= info.finished_at


def test_a_library_is_not_finished_before_its_last_unit(database: Database) -> None:
    store, source = PostgresLibraries(database), RandomSource()
    with store.building(source, {}) as build:
        build.add(source.batch("unit-0"), 0.5)
        with pytest.raises(LibraryConflictError, match="unit-1, unit-2"):
            build.finish()
        with pytest.raises(LibraryConflictError, match="unit-0"):
            build.add(source.batch("unit-0"), 0.5)
        with pytest.raises(LibraryConflictError, match="elsewhere"):
            build.add(replace(source.batch("unit-1"), unit="elsewhere"), 0.5)


def test_a_template_in_two_units_is_refused(database: Database) -> None:
    store, source = PostgresLibraries(database), RandomSource(sizes=(5, 5))
    with store.building(source, {}) as build:
        build.add(source.batch("unit-0"), 0.5)
        with pytest.raises(LibraryConflictError, match="another unit"):
            build.add(replace(source.batch("unit-1"), ids=source.batch("unit-0").ids), 0.5)
        assert build.missing == ("unit-1",)


def test_a_fingerprint_that_leaves_something_out_is_found_out(database: Database) -> None:
    class Careless(RandomSource):
        fingerprint = "always the same"

    store = PostgresLibraries(database)
    build_library(Careless(), store, ignore)
    other = Careless(configs=("H100:8/n200",))
    with pytest.raises(LibraryConflictError, match="leaves something out"), store.building(other, {}):
        pass


def damaged(batch: TemplateBatch) -> dict[str, TemplateBatch]:
    broken_capacity = batch.entry_units_per_s.copy()
    broken_capacity[3] = np.nan
    return {
        "32 hexadecimal digits": replace(batch, ids=np.array([b"x" * 32] * 7)),
        "comes twice": replace(batch, ids=np.repeat(batch.ids[:1], 7)),
        "nodes are not uint8": replace(batch, nodes=batch.nodes[:, :2]),
        "has no nodes": replace(batch, nodes=np.zeros_like(batch.nodes)),
        "engines are not 7": replace(batch, template_engine=batch.template_engine[:-1]),
        "engine is unknown": replace(batch, template_engine=batch.template_engine + np.int16(2)),
        "records are not 7": replace(batch, records=batch.records[:-1]),
        "template has no operating point": replace(batch, point_template=batch.point_template + np.int32(1)),
        "operating point has no capacity": replace(batch, entry_point=batch.entry_point[::-1]),
        "differ in length": replace(batch, entry_class=batch.entry_class[:-1]),
        "work class is unknown": replace(batch, entry_class=batch.entry_class + np.int16(1)),
        "not a positive number": replace(batch, entry_units_per_s=broken_capacity),
    }


@pytest.mark.parametrize("complaint", damaged(RandomSource().batch("unit-2")))
def test_a_batch_that_breaks_its_promise_is_refused_whole(database: Database, complaint: str) -> None:
    source = RandomSource()
    with PostgresLibraries(database).building(source, {}) as build:
        with pytest.raises(ValueError, match=f"'unit-2'.*{complaint}"):
            build.add(damaged(source.batch("unit-2"))[complaint], 0.5)
        build.add(source.batch("unit-2"), 0.5)
