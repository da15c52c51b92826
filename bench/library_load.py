"""How long a library takes to store, to load and to open: `python -m bench.library_load [--templates 275000]`.

Random templates over 20 configurations in 12 units, records of 48-80 bytes, into a new embedded PostgreSQL that is
removed afterwards. The bar is to load 275,000 templates in ≤ 2 s. The baseline is the same load by
one SELECT through SQLAlchemy, row by row. Exits with 1 when the bar is missed.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sqlalchemy import text

from control.db.database import Database, open_database
from control.db.libraries import PostgresLibraries
from control.planning.templates import build_library
from templates_lib.ports.source import Progress, TemplateBatch
from templates_lib.values.work import Unit, WorkClass

UNITS = 12
BAR_S = 2.0
RUNS = 5
ROW_BY_ROW = (
    "SELECT id, nodes, point, class, units_per_s FROM template JOIN capacity USING (library_id, unit, ordinal)"
    " ORDER BY unit, ordinal, point, class"
)


@dataclass(frozen=True)
class RandomTemplates:
    """A `TemplateSource` whose build costs next to nothing, so that the store's own time shows."""

    per_unit: int
    kind = "random"
    fingerprint = "bench"
    cost_model_fingerprint = "bench"
    configs = tuple(f"GPU{i}:1/n25" for i in range(20))
    engines = ("random",)
    classes = tuple(WorkClass(f"model{i}/decode", "m", "decode", Unit.OUTPUT_TOKEN, "s", 50.0) for i in range(UNITS))

    def units(self) -> tuple[str, ...]:
        return tuple(work_class.id for work_class in self.classes)

    def build(self, units: tuple[str, ...], progress: Progress) -> Iterator[TemplateBatch]:
        for unit in units:
            yield self._batch(self.units().index(unit))
            progress(unit, 1, 1)

    def _batch(self, index: int) -> TemplateBatch:
        rng, size = np.random.default_rng(index), self.per_unit
        one_each = np.arange(size, dtype=np.int32)
        filler = rng.bytes(80)
        return TemplateBatch(
            unit=self.units()[index],
            sets=size,
            templates=size,
            ids=np.frombuffer(rng.bytes(16 * size).hex().encode(), dtype="S32"),
            nodes=rng.integers(1, 6, (size, len(self.configs)), dtype=np.uint8),
            point_template=one_each,
            entry_point=one_each,
            entry_class=np.full(size, index, dtype=np.int16),
            entry_units_per_s=rng.uniform(1, 1e5, size),
            template_engine=np.zeros(size, dtype=np.int16),
            records=tuple(filler[: 48 + i % 33] for i in range(size)),
        )


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def row_by_row(database: Database) -> None:
    with database.transaction() as connection:
        rows = connection.execute(text(ROW_BY_ROW)).all()
    np.array([row.id.hex for row in rows], dtype="S32")
    np.frombuffer(b"".join(row.nodes for row in rows), dtype=np.uint8)
    np.array([row.units_per_s for row in rows])


def opened(home: Path) -> None:
    with open_database(data_dir=home):
        pass


def report(what: str, times: list[float]) -> float:
    """The median."""
    median = statistics.median(times)
    print(f"{what:<32} {median:8.3f} s   ({min(times):.3f}-{max(times):.3f})")
    return median


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--templates", type=int, default=275_000)
    source = RandomTemplates(parser.parse_args().templates // UNITS)
    home = Path(tempfile.mkdtemp(prefix="medley-bench-"))
    try:
        report("first opening, tables made", [seconds(lambda: opened(home))])
        report("warm opening and closing", [seconds(lambda: opened(home)) for _ in range(RUNS)])
        with open_database(data_dir=home) as database:
            store = PostgresLibraries(database)
            generate = seconds(lambda: list(source.build(source.units(), lambda *_: None)))
            build = seconds(lambda: build_library(source, store, lambda *_: None))
            version = store.find(source.fingerprint)
            assert version is not None
            size = store.load(version).size
            print(f"{size} templates, {len(source.configs)} configurations, {UNITS} units")
            report("store", [build - generate])
            load_s = report("load", [seconds(lambda: store.load(version)) for _ in range(RUNS)])
            report("baseline: load row by row", [seconds(lambda: row_by_row(database)) for _ in range(2)])
            template_id = store.load(version).template_id(size // 2)
            report(
                "one placement by template id",
                [seconds(lambda: store.record(version, template_id)) for _ in range(RUNS)],
            )
    finally:
        shutil.rmtree(home)
    print(f"bar {BAR_S:g} s to load: {'met' if load_s <= BAR_S else 'MISSED'}")
    return 0 if load_s <= BAR_S else 1


if __name__ == "__main__":
    sys.exit(main())
