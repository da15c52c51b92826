"""A simulation's results in a folder."""

import csv
import os
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from control.simulator.report.chart import Chart
from control.simulator.report.charts import charts_of
from control.simulator.report.drawing import need_plots, png
from control.simulator.report.fate import judge
from control.simulator.report.page import Page, html
from control.simulator.report.simulation_page import simulation_page
from control.simulator.report.summary import Summary, summarise
from control.simulator.report.tables import Coded, Column, RowFile, row_files
from control.simulator.result import SimulationResult
from templates_lib.values.install_hint import install_hint

_ROWS = 65_536
"""Written at a time: memory does not grow with the length of a file."""

Progress = Callable[[str, int, int], None]
"""What is written, how many parts are, of how many."""


class RowFormat(StrEnum):
    CSV = "csv"
    PARQUET = "parquet"


def need_format(rows: RowFormat) -> None:
    """Raises ValueError with what to install."""
    if rows is RowFormat.PARQUET:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise ValueError(f"parquet files need pyarrow: {install_hint('simulate')}") from None


def write_results(
    result: SimulationResult,
    folder: Path,
    *,
    rows: RowFormat = RowFormat.CSV,
    plots: bool = True,
    progress: Progress = lambda *_: None,
) -> Summary:
    """`summary.json`, a file for each of requests, epochs, instances, nodes and events, and with `plots` a PNG for each
    chart and `report.html`, which has them all. Files of an earlier run are replaced; each is whole or not there.

    Raises ValueError before anything is written when a library is missing (matplotlib for plots, pyarrow for parquet),
    OSError when `folder` cannot be written.
    """
    need_format(rows)
    if plots:
        need_plots()
    folder.mkdir(parents=True, exist_ok=True)
    judged = judge(result.requests, result.served, {m.name: m.slo for m in result.models}, result.facts.length_s)
    summary = summarise(result, judged)
    files, charts = row_files(result, judged), charts_of(result, judged) if plots else ()
    steps = len(files) + 1
    write = _write_csv if rows is RowFormat.CSV else _write_parquet
    for done, file in enumerate(files):
        progress("results", done, steps)
        _whole(folder / f"{file.name}.{rows}", partial(write, file))
    if plots:
        progress("results", len(files), steps)
        write_page(folder, simulation_page(summary, charts), charts)
    _whole(folder / "summary.json", partial(_write_bytes, summary_json(summary)))
    progress("results", steps, steps)
    return summary


def write_page(folder: Path, page: Page, charts: Iterable[Chart]) -> None:
    """`report.html`, and a PNG for each of its charts. Raises MissingPlotsError, OSError."""
    need_plots()
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        _whole(folder / f"{chart.id}.png", partial(_write_bytes, png(chart)))
    _whole(folder / "report.html", partial(_write_bytes, html(page).encode()))


def summary_json(summary: Summary) -> bytes:
    return msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        write(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _write_bytes(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def _write_csv(file: RowFile, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(file.columns)
        for part in file.parts(_ROWS):
            writer.writerows(zip(*part.values(), strict=True))


def _write_parquet(file: RowFile, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, _parquet_type(column)) for name, column in file.columns.items()])
    with pq.ParquetWriter(path, schema) as writer:
        for part in file.parts(_ROWS):
            writer.write_table(pa.table(part, schema=schema))


def _parquet_type(column: Column) -> Any:
    import pyarrow as pa

    if isinstance(column, Coded):
        return pa.string()
    found = pa.from_numpy_dtype(column.dtype) if isinstance(column, np.ndarray) else pa.array(column).type
    return pa.string() if found == pa.null() else found
