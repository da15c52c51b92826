"""Reads the measured kernel tables of shared/data/perf as arrays, rows held out of the fit marked."""

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.validation import is_held_out

PERF = Path(__file__).resolve().parents[3] / "shared" / "data" / "perf"
NAMES = {
    "a100_sxm": "A100-80",
    "h100_sxm": "H100",
    "h200_sxm": "H200",
    "l40s": "L40S",
    "b200_sxm": "B200",
    "rtx_pro_6000_server": "RTXPRO6000",
}
Table = dict[tuple[str, str], NDArray[np.float64]]
SAMPLE = 8000
"""Rows of one GPU and format that a fit looks at: more change no digit that matters."""


def rows_of(name: str) -> Iterator[dict[str, str]]:
    path = PERF / name
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as lines:
        yield from csv.DictReader(lines)


def table(name: str, group: str, columns: tuple[str, ...], keep: dict[str, str] | None = None) -> Table:
    """(GPU, value of `group`) → float64 array of `columns`, seconds last but one, 1.0 for held-out rows last."""
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for row in rows_of(name):
        if keep and any(row[k] != v for k, v in keep.items()):
            continue
        values = tuple(float(row[c]) for c in columns)
        sample = (*values, float(row["latency"]) / 1e3, float(is_held_out(row)))
        found.setdefault((NAMES[row["system"]], row[group]), []).append(sample)
    rng = np.random.default_rng(0)
    arrays = {key: np.array(sorted(value)) for key, value in found.items()}
    return {key: array[rng.permutation(len(array))[:SAMPLE]] for key, array in arrays.items()}
