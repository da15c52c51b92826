"""Errors of the estimated cost model against measured deployments."""

import csv
import gzip
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates_lib.cost.coefficients import Coefficients, Setup, load_coefficients
from templates_lib.cost.deployment import Deployment, InexpressibleRowError, UnreadableRowError, deployment_of
from templates_lib.cost.estimated import EstimatedCostModel
from templates_lib.cost.serving import StepTimes, latencies, load_of, loads, step_times
from templates_lib.ports.cost_model import StageCostModel

Floats = NDArray[np.float64]
REQUIRED = ("backend", "model_path", "system", "mode", "isl", "osl", "silicon_ttft_ms", "silicon_tpot_ms")
MOST_TTFT_MS = 10_000.0
QUEUEING = f"queueing artefact: TTFT above {MOST_TTFT_MS / 1000:.0f} s (the data's README says to drop these)"
BROKEN = "broken row: "
STAND_IN = "vllm"
"""Whose engine numbers a backend without its own is predicted with."""
SETUP = "setup"
GZIP_MAGIC = b"\x1f\x8b"
HELD_OUT_OF_TEN = 3
IGNORED = ("latency", "version", "device", "ms_per_layer", "nccl")


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors |predicted / measured - 1| over some rows; bias > 1 is predicted too slow (median ratio)."""

    rows: int
    median_ttft_error: float
    p90_ttft_error: float
    ttft_bias: float
    median_tpot_error: float
    p90_tpot_error: float
    tpot_bias: float


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """`overall` is over all used rows. `held_out`: those whose hash keeps them out of the fit; `held_out_deployments`:
    all rows of the deployments whose name's hash does (rows of one deployment differ only in batch and lengths; the
    shipped coefficients have seen some of them, bench/validate_cost_model.py refits without). `as_planned`: all rows
    with the numbers of their engine over all releases and machines, which is what plans are made with."""

    rows: int
    used: int
    skipped: dict[str, int]
    dropped: dict[str, int]
    overall: Errors
    held_out: Errors
    held_out_deployments: Errors
    as_planned: Errors
    per_gpu: dict[str, Errors]
    per_model: dict[str, Errors]
    per_backend: dict[str, Errors]
    per_mode: dict[str, Errors]
    coefficients: str

    @property
    def skipped_share(self) -> float:
        return sum(self.skipped.values()) / self.rows if self.rows else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the report ready for JSON, the overall figures on top."""
        top = {k: v for k, v in asdict(self.overall).items() if k != "rows"}
        return {**top, **asdict(self), "skipped_share": self.skipped_share}


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a CSV file, gzipped or plain. Raises ValueError where columns are missing or the file is no text."""
    with path.open("rb") as start:
        packed = start.read(2) == GZIP_MAGIC
    try:
        with gzip.open(path, "rt", newline="") if packed else path.open(newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(lines)
            missing = [c for c in REQUIRED if c not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(f"{path}: columns missing: {', '.join(missing)}")
            yield from ({k: v or "" for k, v in row.items() if isinstance(k, str)} for row in reader)
    except (EOFError, gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: not a readable CSV file (truncated?): {error}") from error


Kept = list[tuple[Mapping[str, str], Deployment]]


def validate_rows(rows: Iterable[Mapping[str, str]]) -> ValidationReport:
    """Predicts every row (columns of aiconf_silicon_end_to_end.csv.gz) and compares.

    A row is skipped only for a GPU, architecture or precision that the model cannot express; rows of queueing
    artefacts and broken rows are dropped and counted. Raises ValueError when no row is left.
    """
    return report_of(*comparable(rows))


def comparable(rows: Iterable[Mapping[str, str]]) -> tuple[Kept, Counter[str], Counter[str]]:
    """Rows with their deployments, and how many were skipped and dropped by reason. Raises ValueError when none is
    left."""
    kept: Kept = []
    skipped: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    for row in rows:
        try:
            deployment = deployment_of(row)
        except InexpressibleRowError as error:
            skipped[str(error)] += 1
        except UnreadableRowError as error:
            dropped[BROKEN + str(error)] += 1
        else:
            if deployment.ttft_ms > MOST_TTFT_MS:
                dropped[QUEUEING] += 1
            elif min(deployment.ttft_ms, deployment.tpot_ms) <= 0:
                dropped[BROKEN + "TTFT and TPOT must be above 0"] += 1
            else:
                kept.append((row, deployment))
    if not kept:
        reasons = "; ".join(f"{n} × {why}" for why, n in (skipped + dropped).most_common(3)) or "the file is empty"
        raise ValueError(f"no row can be compared: {reasons}")
    return kept, skipped, dropped


Maker = Callable[[Deployment, str, Coefficients], StageCostModel]
"""(deployment, engine, coefficients) → the cost model that its steps are timed with."""


def estimate_for(deployment: Deployment, engine: str, coefficients: Coefficients) -> StageCostModel:
    """The fitted estimate of a deployment's machine."""
    gpu = deployment.system.gpu
    return EstimatedCostModel({gpu.name: gpu}, engine, coefficients)


def predict(
    deployments: Sequence[Deployment], coefficients: Coefficients, maker: Maker = estimate_for
) -> tuple[Floats, Floats]:
    """(TTFT, TPOT) in seconds of each deployment, (n,)."""
    ttft, tpot = np.empty(len(deployments)), np.empty(len(deployments))
    members: dict[Setup, list[int]] = {}
    for i, deployment in enumerate(deployments):
        members.setdefault(_setup(deployment, coefficients), []).append(i)
    for setup, at in members.items():
        own = [deployments[i] for i in at]
        under = replace(coefficients, engines={SETUP: setup.engine})
        times = [step_times(d, maker(d, SETUP, under), load_of(d, setup.serving)[0]) for d in own]
        ttft[at], tpot[at] = latencies(StepTimes(*np.array(times).T), loads(own, setup.serving), setup.serving)
    return ttft, tpot


def _setup(deployment: Deployment, coefficients: Coefficients) -> Setup:
    backend = deployment.backend if deployment.backend in coefficients.serving else STAND_IN
    return coefficients.setup(backend, deployment.release, deployment.system.name)


def report_of(kept: Kept, skipped: Counter[str], dropped: Counter[str]) -> ValidationReport:
    """The report on what `comparable` returned."""
    coefficients = load_coefficients()
    deployments = [d for _, d in kept]
    ratios = ratios_of(deployments, coefficients)

    def groups(name_of: Callable[[Deployment], str]) -> dict[str, Errors]:
        names = np.array([name_of(d) for d in deployments])
        return {str(name): errors(ratios[names == name]) for name in np.unique(names)}

    return ValidationReport(
        rows=len(kept) + skipped.total() + dropped.total(),
        used=len(kept),
        skipped=dict(skipped),
        dropped=dict(dropped),
        overall=errors(ratios),
        held_out=errors(ratios[[is_held_out(row) for row, _ in kept]]),
        held_out_deployments=errors(ratios[[group_is_held_out(d.group) for d in deployments]]),
        as_planned=errors(ratios_of(deployments, as_planned(coefficients))),
        per_gpu=groups(lambda d: d.system.name),
        per_model=groups(lambda d: d.model_path),
        per_backend=groups(lambda d: d.backend),
        per_mode=groups(mode_of),
        coefficients=coefficients.fingerprint,
    )


def as_planned(coefficients: Coefficients) -> Coefficients:
    """Those of engines over all releases and machines, which plans are made with."""
    return replace(coefficients, setups={})


def ratios_of(deployments: Sequence[Deployment], coefficients: Coefficients, maker: Maker = estimate_for) -> Floats:
    """(n, 2) predicted over measured TTFT and TPOT."""
    measured = np.array([(d.ttft_ms / 1e3, d.tpot_ms / 1e3) for d in deployments])
    return np.asarray(np.column_stack(predict(deployments, coefficients, maker)) / measured)


def mode_of(deployment: Deployment) -> str:
    """Aggregated, or disaggregated with the workers stated or not."""
    if deployment.decode is None:
        return "aggregated"
    return "disaggregated" if deployment.decode.count else "disaggregated, workers not stated"


def errors(ratios: Floats) -> Errors:
    """`ratios` (n, 2): predicted over measured TTFT and TPOT. NaN where there is no row."""
    if not len(ratios):
        return Errors(0, *(float("nan"),) * 6)
    off = np.abs(ratios - 1)
    median, p90, bias = np.median(off, axis=0), np.percentile(off, 90, axis=0), np.median(ratios, axis=0)
    ttft, tpot = (tuple(float(f[i]) for f in (median, p90, bias)) for i in (0, 1))
    return Errors(len(ratios), *ttft, *tpot)


def is_held_out(row: Mapping[str, str]) -> bool:
    """Tell whether a row is held out: three in ten are, by a fixed hash of the row's configuration.

    An end-to-end measurement is known by its two figures: the sources list some of them several times under other
    names, which must not fall on both sides. A kernel's row is known by its configuration.
    """
    if row.get("silicon_ttft_ms"):
        return _tenth(f"{row['silicon_ttft_ms']}/{row.get('silicon_tpot_ms')}") < HELD_OUT_OF_TEN
    return _tenth(repr(sorted((k, v) for k, v in row.items() if k not in IGNORED and v))) < HELD_OUT_OF_TEN


def group_is_held_out(group: tuple[str, ...]) -> bool:
    """The same for whole groups of rows, such as all batches of one deployment."""
    return _tenth(repr(group)) < HELD_OUT_OF_TEN


def _tenth(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % 10
