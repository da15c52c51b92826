"""Reads the measured kernel tables of shared/data/perf as arrays, rows held out of the fit marked; and measured
deployments, of which those that engines are fitted to are in this repository."""

import csv
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.deployment import Deployment
from templates_lib.cost.kernel_tables import NOT_INSTALLED, PACKAGE
from templates_lib.cost.validation import is_held_out

PERF = Path(__file__).resolve().parents[3] / "shared" / "data" / "perf"
DEPLOYMENTS = Path(__file__).with_name("deployments.csv.gz")
"""3,108 measured deployments of the 5,221 of `systems/silicon_sample.csv` of NVIDIA aiconfigurator-core 0.12.0 (PyPI,
Apache-2.0), as read on 2026-11-21; image hosts cut out."""
NAMES = {
    "a100_sxm": "A100-80",
    "h100_sxm": "H100",
    "h200_sxm": "H200",
    "l40s": "L40S",
    "b200_sxm": "B200",
    "rtx_pro_6000_server": "RTXPRO6000",
}
Table = dict[tuple[str, str], NDArray[np.float64]]
FIXED_LENGTHS = "auto-gap-analysis"
"""In the source of rows whose client sent prompts of exactly the length that they are called by."""
MEAN_LENGTH = 0.9
"""Mean of the lengths that all others sent, in those that they are called by: InferenceX's client draws prompts and
answers evenly from 0.8 to 1 of it (`--random-range-ratio 0.8`)."""
SAMPLE = 8000
"""Rows of one GPU and format that a fit looks at: more change no digit that matters."""


def rows_of(name: str) -> Iterator[dict[str, str]]:
    path = PERF / name
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as lines:
        yield from csv.DictReader(lines)


def deployment_rows() -> Iterator[dict[str, str]]:
    """Rows of deployments that engines may be fitted to."""
    return rows_of(str(DEPLOYMENTS))


def as_sent(row: Mapping[str, str], deployment: Deployment) -> Deployment:
    """`deployment` of `row` with the mean lengths that its client sent."""
    if FIXED_LENGTHS in row["silicon_data_source"]:
        return deployment
    prompt, output = MEAN_LENGTH * deployment.prompt_tokens, MEAN_LENGTH * deployment.output_tokens
    return replace(deployment, prompt_tokens=max(1.0, prompt), output_tokens=max(1.0, output))


def unseen_rows() -> Iterator[dict[str, str]]:
    """The rest of the sample, which nothing was ever fitted to, as the installed package has it; without rows that
    repeat a measurement of those above under another name. Raises LookupError where it is not installed."""
    package = find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise LookupError(NOT_INSTALLED)
    known = {_measurement(row) for row in deployment_rows()}
    for row in rows_of(str(Path(package.submodule_search_locations[0]) / "systems" / "silicon_sample.csv")):
        if _measurement(row) not in known:
            yield row


def _measurement(row: dict[str, str]) -> tuple[float, float]:
    """Some sources round."""
    return round(float(row["silicon_ttft_ms"]), 1), round(float(row["silicon_tpot_ms"]), 1)


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
