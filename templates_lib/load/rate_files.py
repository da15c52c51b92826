"""Rate series in CSV files: one row per (series, window), or per (series, client, window)."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from templates_lib.load.rate_series import RateSeries
from templates_lib.load.traces import TraceError, iterate_rows


@dataclass(frozen=True, slots=True)
class RateColumns:
    """Column names of one kind of file; every kind has `t_s`, the start of the window."""

    series: str
    rate: str


KINDS = (
    RateColumns("series", "requests_per_s"),
    RateColumns("model", "total_rate_req_s"),
    # ServeGen's clients: rows of one model and window add up.
    RateColumns("model", "rate_req_s"),
)


@dataclass(slots=True)
class _Windows:
    rate: defaultdict[float, float]
    dispersion: defaultdict[float, float]


def read_rate_series(path: Path, window_s: float) -> dict[str, RateSeries]:
    """Every series of a file (gzipped or not), from its first window to its last; a window without a row has rate 0.

    Rows of one window add up, and so does their dispersion λ cv² (see `rate_series.mixed`); without a `cv` column,
    or in an empty cell, arrivals count as Poisson. Raises TraceError, with the line, for unknown columns, a bad
    number, or a time that is no multiple of `window_s` after the first.
    """
    found: dict[str, _Windows] = {}
    for line, row in iterate_rows(path):
        kind = next((k for k in KINDS if {k.series, k.rate, "t_s"} <= row.keys()), None)
        if kind is None:
            wanted = "; ".join(f"{k.series}, t_s, {k.rate}" for k in KINDS)
            raise TraceError(f"{path}: columns {', '.join(row)} are none of the known kinds: {wanted}")
        try:
            time, rate, cv = float(row["t_s"]), float(row[kind.rate]), float(row.get("cv") or 1.0)
        except ValueError as error:
            raise TraceError(f"{path}:{line}: {error}") from None
        if not (0 <= rate < np.inf and 0 <= cv < np.inf and abs(time) < np.inf):
            raise TraceError(f"{path}:{line}: rate {rate} and cv {cv} must be finite and not negative")
        windows = found.setdefault(row[kind.series], _Windows(defaultdict(float), defaultdict(float)))
        windows.rate[time] += rate
        windows.dispersion[time] += rate * cv**2
    if not found:
        raise TraceError(f"{path}: no rows")
    return {name: _series(path, name, windows, window_s) for name, windows in found.items()}


def _series(path: Path, name: str, windows: _Windows, window_s: float) -> RateSeries:
    times = np.array(sorted(windows.rate))
    place = (times - times[0]) / window_s
    index = np.rint(place).astype(np.int64)
    off = np.abs(place - index) > 1e-6
    if off.any():
        raise TraceError(f"{path}: {name} has a window at {times[off][0]} s: not on a grid of {window_s} s")
    rate = np.zeros(index[-1] + 1)
    dispersion = np.zeros(index[-1] + 1)
    rate[index] = [windows.rate[t] for t in times]
    dispersion[index] = [windows.dispersion[t] for t in times]
    cv = np.sqrt(np.divide(dispersion, rate, out=np.ones_like(rate), where=rate > 0))
    return RateSeries(name, window_s, rate, cv, path.name)
