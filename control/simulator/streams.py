"""Streams of requests from the traffic of a scenario file."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from control.fleet_file.section import is_path
from control.planning.trace_files import shape_of
from control.simulator.request_trace import MAX_REQUESTS, Stream, read_stream
from control.simulator.scenario_schema import StreamSection
from templates_lib.load.arrivals import arrival_times
from templates_lib.load.rate_files import read_rate_series
from templates_lib.load.rate_series import RateSeries, constant, diurnal
from templates_lib.load.shapes import load_rates
from templates_lib.load.workload import WorkloadShape
from templates_lib.values.nearest_name import nearest_name

_DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Span:
    """When a scenario is."""

    start: datetime
    length_s: float

    @property
    def time_of_day_s(self) -> float:
        midnight = self.start.replace(hour=0, minute=0, second=0, microsecond=0)
        return (self.start - midnight).total_seconds()


def stream_of(
    section: StreamSection, folder: Path, own: WorkloadShape, span: Span, seed: tuple[int, ...], notes: list[str]
) -> Stream:
    """`own`: the model's shape of lengths. What is left out of a file of lengths is added to `notes`; of a trace whose
    arrivals count too nothing is. Raises SpecError, TraceError, ValueError."""
    whole = _unbounded(section, folder, own, span, seed, notes)
    return whole if section.max_tokens is None else whole.bounded(section.max_tokens)


def _unbounded(
    section: StreamSection, folder: Path, own: WorkloadShape, span: Span, seed: tuple[int, ...], notes: list[str]
) -> Stream:
    if section.trace is not None:
        return replace(_of_trace(section, section.trace, folder, span), priority=section.priority)
    shape = own if section.workload is None else shape_of(section.workload, folder, notes)
    series, from_s = _series(section, folder, span)
    expected = series.mean_requests_per_s * series.duration_s
    if expected > MAX_REQUESTS:
        raise ValueError(f"about {expected:,.0f} requests; at most {MAX_REQUESTS:,} are simulated: scale it down")
    drawn = np.random.SeedSequence(seed).generate_state(1)[0]
    times = np.fromiter(arrival_times(series, int(drawn)), np.float64) - from_s
    times = times[(times >= 0) & (times < span.length_s)]
    picks = np.random.default_rng((*seed, 1)).integers(len(shape.prompt_tokens), size=len(times))
    return Stream(times, shape.prompt_tokens[picks], shape.output_tokens[picks], span.length_s, section.priority)


def _of_trace(section: StreamSection, name: str, folder: Path, span: Span) -> Stream:
    whole = read_stream(folder / name)
    own = len(whole.arrival_s) / whole.period_s
    factor = section.requests_per_s / own if section.requests_per_s is not None else section.scale or 1.0
    scaled = whole.scaled(factor)
    _refuse_end(section, name, scaled.period_s, span)
    return scaled.cut(60 * section.from_minutes, span.length_s)


def _series(section: StreamSection, folder: Path, span: Span) -> tuple[RateSeries, float]:
    """A rate for all of the scenario, and the second of it at which the scenario begins."""
    if section.rates is not None:
        series = _rates(section, section.rates, folder)
        if section.requests_per_s is not None:
            series = series.scaled_to(section.requests_per_s)
        elif section.scale is not None:
            series = replace(series, requests_per_s=series.requests_per_s * section.scale)
        _refuse_end(section, section.rates, series.duration_s, span)
        from_s = 60 * section.from_minutes
        windows = np.arange(np.floor(from_s / series.window_s), np.ceil((from_s + span.length_s) / series.window_s))
        at = windows.astype(np.int64) % len(series.requests_per_s)
        cut = replace(series, requests_per_s=series.requests_per_s[at], cv=series.cv[at])
        return cut, from_s - float(windows[0]) * series.window_s
    rate = section.requests_per_s
    assert rate is not None  # noqa: S101 - the schema wants it of synthetic arrivals
    if section.synthetic != "diurnal":
        return constant(section.model, rate, span.length_s, cv=section.cv or 1.0), 0.0
    days = int(np.ceil((span.time_of_day_s + span.length_s) / _DAY_S))
    peak = {"peak_hour": section.peak_hour} if section.peak_hour is not None else {}
    height = {"peak_to_trough": section.peak_to_trough} if section.peak_to_trough is not None else {}
    return diurnal(section.model, rate, days=days, window_s=600.0, **peak, **height), span.time_of_day_s


def _refuse_end(section: StreamSection, name: str, period_s: float, span: Span) -> None:
    needed_s = 60 * section.from_minutes + span.length_s
    if section.repeat or needed_s <= period_s:
        return
    since = f" from minute {section.from_minutes:g} on" if section.from_minutes else ""
    raise ValueError(
        f"the scenario lasts {span.length_s / 60:g} minutes, {name} as it is scaled {period_s / 60:.1f}"
        f"{since and f' in all, and is read{since}'}: set `repeat: true` for it, or `minutes` to at most "
        f"{max(period_s / 60 - section.from_minutes, 0):.1f}"
    )


def _rates(section: StreamSection, name: str, folder: Path) -> RateSeries:
    if not is_path(name):
        return load_rates(name)
    if section.series is None or section.window_minutes is None:
        raise ValueError(f"{name} is a file of rate series: say which with `series`, and `window_minutes` of a window")
    found = read_rate_series(folder / name, 60 * section.window_minutes)
    if section.series not in found:
        raise ValueError(f"{name} has no series {section.series!r}; {nearest_name(section.series, found)}")
    return found[section.series]
