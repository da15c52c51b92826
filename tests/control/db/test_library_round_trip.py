"""What is built comes back as it was, to the bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from control.db.database import Database
from control.db.errors import LibraryConflictError, NotStoredError
from control.db.libraries import PostgresLibraries
from control.planning.templates import build_library
from templates_lib.ports.source import TemplateBatch
from templates_lib.values.library import Library
from templates_lib.values.template import Limit
from tests.control.db.random_source import RandomSource


def ignore(what: str, done: int, total: int) -> None:
    pass


def expected(source: RandomSource, version: str) -> Library:
    batches = [source.batch(unit) for unit in source.units()]
    template_offsets = np.cumsum([0, *(len(b.ids) for b in batches)])
    point_offsets = np.cumsum([0, *(len(b.point_template) for b in batches)])
    return Library(
        version=version,
        cost_model_fingerprint=source.cost_model_fingerprint,
        configs=source.configs,
        classes=source.classes,
        ids=np.concatenate([b.ids for b in batches]),
        nodes=np.concatenate([b.nodes for b in batches]),
        point_template=np.concatenate([b.point_template + o for b, o in zip(batches, template_offsets, strict=False)]),
        entry_point=np.concatenate([b.entry_point + o for b, o in zip(batches, point_offsets, strict=False)]),
        entry_class=np.concatenate([b.entry_class for b in batches]),
        entry_units_per_s=np.concatenate([b.entry_units_per_s for b in batches]),
        engines=source.engines,
        template_engine=np.concatenate([b.template_engine for b in batches]),
        limits={name: limits for batch in batches for name, limits in named(source, batch).items()},
    )


def named(source: RandomSource, batch: TemplateBatch) -> dict[str, tuple[Limit, ...]]:
    """The limits of a batch by template and class."""
    found = {}
    for row, limits in batch.limits.items():
        point = int(np.flatnonzero(batch.point_template == row)[0])
        names = [source.class_ids[k] for k in batch.entry_class[batch.entry_point == point].tolist()]
        found[batch.ids[row].decode()] = tuple(dict(zip(names, uses, strict=True)) for uses in limits)
    return found


def assert_equal(left: Library, right: Library) -> None:
    for name in ("version", "cost_model_fingerprint", "configs", "classes", "engines", "limits"):
        assert getattr(left, name) == getattr(right, name), name
    arrays = ("ids", "nodes", "point_template", "entry_point", "entry_class", "entry_units_per_s", "template_engine")
    for name in arrays:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=5).map(tuple),
    configs=st.integers(1, 60),
    classes=st.integers(1, 3),
    max_points=st.integers(1, 3),
    seed=st.integers(0, 2**20),
    limits=st.integers(0, 3),
)
def test_a_library_is_loaded_as_it_was_built(
    database: Database, sizes: tuple[int, ...], configs: int, classes: int, max_points: int, seed: int, limits: int
) -> None:
    names = tuple(f"G{i}:1/n10" for i in range(configs))
    class_ids = tuple(f"m{i}/decode" for i in range(classes))
    source = RandomSource(sizes, names, class_ids, max_points, seed, limits=limits)
    store = PostgresLibraries(database)
    version = build_library(source, store, ignore)
    assert_equal(store.load(version), expected(source, version))


def test_rows_are_queryable_one_a_template(database: Database) -> None:
    source = RandomSource()
    build_library(source, PostgresLibraries(database), ignore)
    template_id = source.batch("unit-2").ids[3].decode()
    with database.transaction() as connection:
        best = connection.execute(
            text(
                "SELECT get_byte(nodes, 0), units_per_s FROM template JOIN capacity USING (library_id, unit, ordinal)"
                " WHERE id = CAST(:id AS uuid) AND point = 0 AND class = 0"
            ),
            {"id": template_id},
        ).one()
    library = expected(source, "")
    row = library.ids.tolist().index(template_id.encode())
    assert best[0] == library.nodes[row, 0]
    assert best[1] in library.entry_units_per_s[library.point_template[library.entry_point] == row]


def test_a_version_is_a_hash_of_the_content_not_of_the_time_it_took(
    database: Database, empty_database_url: str
) -> None:
    from control.db.database import open_database

    first = build_library(RandomSource(), PostgresLibraries(database), ignore)
    with open_database(empty_database_url, upgrade=True) as other:
        assert build_library(RandomSource(), PostgresLibraries(other), ignore) == first
    assert build_library(RandomSource(seed=1), PostgresLibraries(database), ignore) != first


def test_a_placement_is_handed_out_by_template_id(database: Database) -> None:
    source = RandomSource()
    store = PostgresLibraries(database)
    version = build_library(source, store, ignore)
    batch = source.batch("unit-2")
    found = store.record(version, batch.ids[5].decode())
    assert (found.kind, found.library_version, found.record) == ("random", version, batch.records[5])
    assert found.nodes == {c: int(n) for c, n in zip(source.configs, batch.nodes[5], strict=True) if n}
    for absent in ("0" * 32, "no id"):
        with pytest.raises(NotStoredError, match=absent):
            store.record(version, absent)


def test_running_templates_are_loaded_though_a_new_library_lacks_them(database: Database) -> None:
    store = PostgresLibraries(database)
    old = RandomSource(seed=1, configs=("H100:8/n200", "L4:1/n10"), class_ids=("a/decode", "gone/decode"))
    build_library(old, store, ignore)
    newer = replace(old, seed=2)
    build_library(newer, store, ignore)
    source = RandomSource()
    version = build_library(source, store, ignore)
    whole = store.load(version)
    running = [old.batch("unit-2").ids[4].decode(), newer.batch("unit-0").ids[1].decode(), whole.template_id(3)]
    loaded = store.load(version, [*running, "f" * 32, "not an id"])
    assert loaded.size == whole.size + 2
    assert loaded.version == version
    assert loaded.configs == (*source.configs, "H100:8/n200")
    assert [c.id for c in loaded.classes] == ["a/prefill", "a/decode", "gone/decode"]
    assert_equal(
        replace(loaded.select(np.arange(loaded.size) < whole.size), configs=(), classes=(), nodes=whole.nodes),
        replace(whole, configs=(), classes=()),
    )
    for template_id, origin, unit, ordinal in ((running[0], old, 2, 4), (running[1], newer, 0, 1)):
        one = loaded.select(loaded.ids == template_id.encode())
        batch = origin.batch(f"unit-{unit}")
        counts = dict(zip(origin.configs, batch.nodes[ordinal].tolist(), strict=True))
        assert one.nodes[0].tolist() == [counts.get(c, 0) for c in loaded.configs]
        mine = batch.point_template[batch.entry_point] == ordinal
        names = [origin.class_ids[k] for k in batch.entry_class[mine]]
        assert [loaded.classes[k].id for k in one.entry_class] == names
        assert one.entry_units_per_s.tolist() == batch.entry_units_per_s[mine].tolist()
        assert store.record(version, template_id).record == batch.records[ordinal]


def test_a_library_of_before_engines_were_kept_has_none_that_is_known(database: Database) -> None:
    store = PostgresLibraries(database)
    version, newer = (build_library(RandomSource(seed=seed), store, ignore) for seed in (0, 1))
    with database.transaction() as connection:  # as the migration leaves it
        connection.execute(text("UPDATE library SET engines = NULL WHERE version = :v"), {"v": version})
        connection.execute(text("UPDATE template SET engine = 0 WHERE library_id = (SELECT min(id) FROM library)"))
    old = store.load(version)
    assert {old.engine_of(row) for row in range(old.size)} == {""}
    joined = store.load(newer, [old.template_id(2)])
    assert [joined.engine_of(row) for row in range(joined.size)] == [
        *(store.load(newer).engine_of(row) for row in range(joined.size - 1)),
        "",
    ]


def test_an_unknown_version_names_the_nearest(database: Database) -> None:
    store = PostgresLibraries(database)
    version = build_library(RandomSource(), store, ignore)
    for call in (store.load, store.show):
        with pytest.raises(NotStoredError, match=version):
            call(version[:-2] + "zz")
    with pytest.raises(NotStoredError, match=version):
        store.show(version[:6])


@pytest.mark.parametrize("table", ["template", "capacity"])
def test_a_library_with_lost_rows_is_not_planned_with(database: Database, table: str) -> None:
    store = PostgresLibraries(database)
    version = build_library(RandomSource(), store, ignore)
    with database.transaction() as connection:
        statement = f"DELETE FROM {table} WHERE ordinal = 2 AND unit = 0"  # noqa: S608
        connection.execute(text(statement))
    with pytest.raises(LibraryConflictError, match="11 of 12"):
        store.load(version)
