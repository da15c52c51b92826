"""A library of several sources is the libraries of each, under a version of its own."""

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import text

from control.db.database import Database, open_database
from control.db.errors import LibraryConflictError, NotStoredError
from control.db.libraries import PostgresLibraries
from control.db.migrate import downgrade, upgrade
from control.db.template_pages import template_page
from control.planning.templates import build_library
from tests.control.db.random_source import RandomSource
from tests.control.db.test_library_round_trip import assert_equal

FIRST = RandomSource(sizes=(5, 0, 7))
SECOND = RandomSource(sizes=(5, 3), configs=("H100:8/n200", "L4:1/n10", "T4:4/n25"), class_ids=("b/serve", "a/decode"))
"""Of another seed but for its first unit, whose templates have the ids of those of `FIRST`."""


def built(store: PostgresLibraries, *sources: RandomSource) -> list[str]:
    return [build_library(source, store, lambda *_: None, {"seed": 0.0}) for source in sources]


def test_the_library_of_one_source_is_that_source_s(database: Database) -> None:
    store = PostgresLibraries(database)
    (version,) = built(store, FIRST)
    assert store.join([version]) == version
    assert len(store.libraries()) == 1


def test_templates_of_all_sources_are_in_it_and_the_first_source_s_count(database: Database) -> None:
    store = PostgresLibraries(database)
    parts = built(store, FIRST, SECOND)
    version = store.join(parts)
    assert version not in parts
    assert store.join(parts) == version
    assert store.join(parts[::-1]) != version
    assert len(store.libraries()) == 4
    first, second, whole = (store.load(each) for each in (*parts, version))
    again, new = second.ids[:5].tolist(), second.ids[5:].tolist()
    assert again == first.ids[:5].tolist()
    assert not set(new) & set(first.ids.tolist())
    assert whole.version == version
    assert whole.configs == (*FIRST.configs, "H100:8/n200")
    assert [each.id for each in whole.classes] == ["a/prefill", "a/decode", "b/serve"]
    assert whole.ids.tolist() == [*first.ids.tolist(), *new]
    own = whole.select(np.arange(whole.size) < first.size)
    assert_equal(
        replace(own, classes=(), configs=(), nodes=own.nodes[:, :3], cost_model_fingerprint=""),
        replace(first, version=version, classes=(), configs=(), cost_model_fingerprint=""),
    )
    assert_equal(
        store.part(version, [again[0].decode(), new[0].decode()]), whole.of([again[0].decode(), new[0].decode()])
    )


def test_a_template_is_found_in_the_part_that_has_it(database: Database) -> None:
    store = PostgresLibraries(database)
    parts = built(store, FIRST, SECOND)
    version, back = store.join(parts), store.join(parts[::-1])
    both, only = (SECOND.batch(f"unit-{unit}").ids[1].decode() for unit in (0, 1))
    assert store.record(version, both).library_version == parts[0]
    assert store.record(back, both).library_version == parts[1]
    assert store.record(version, only).library_version == parts[1]
    assert "H100:8/n200" in store.record(back, both).nodes
    assert "H100:8/n200" not in store.record(version, both).nodes


def test_people_see_what_its_parts_are(database: Database) -> None:
    store = PostgresLibraries(database)
    parts = built(store, FIRST, SECOND)
    first, second, info = (store.show(version) for version in (*parts, store.join(parts)))
    assert (info.kind, info.cost_model_fingerprint) == ("random+random", "random-0")
    assert info.units == (*first.units, *second.units)
    assert info.parameters == {"seed": 0.0}
    assert info.finished_at
    pages, after = [], ""
    while page := template_page(database, info.version, "a/decode", 3, after):
        pages += page
        after = page[-1].id
    whole = store.load(info.version)
    decode = whole.entry_class == [each.id for each in whole.classes].index("a/decode")
    expected = {whole.ids[whole.point_template[point]].decode() for point in whole.entry_point[decode]}
    assert [each.id for each in pages] == sorted(expected)
    served = {each.id for each in template_page(database, info.version, "b/serve", 100)}
    assert served == {name.decode() for name in whole.ids[sum(FIRST.sizes) :].tolist()}


def test_what_cannot_be_one_library_is_refused(database: Database) -> None:
    store = PostgresLibraries(database)
    parts = built(store, FIRST)
    with pytest.raises(NotStoredError, match="nowhere"):
        store.join([*parts, "nowhere"])
    with database.transaction() as connection:
        connection.execute(text("UPDATE library SET classes = replace(classes::text, '100', '99')::json"))
    parts += built(store, SECOND)
    with pytest.raises(ValueError, match="work class a/decode has to be the same in every source"):
        store.join(parts)


def test_a_part_that_lost_rows_is_not_planned_with(database: Database) -> None:
    store = PostgresLibraries(database)
    version = store.join(built(store, FIRST, SECOND))
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM template WHERE ordinal = 2 AND unit = 1"))
    with pytest.raises(LibraryConflictError, match="7 of 8"):
        store.load(version)


def test_the_release_before_has_the_parts_alone(empty_database_url: str) -> None:
    with open_database(empty_database_url, upgrade=True) as database:
        store = PostgresLibraries(database)
        parts = built(store, FIRST, SECOND)
        joined = store.join(parts)
        with database.transaction() as connection:
            downgrade(connection, "0014")
            left = connection.execute(text("SELECT version FROM library ORDER BY id")).scalars().all()
            upgrade(connection)
        assert left == parts
        assert store.join(parts) == joined
        assert store.load(joined).size == sum((*FIRST.sizes, *SECOND.sizes)) - 5
