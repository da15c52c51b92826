"""Request traces: when requests came and how long they were. Read once here, for everybody."""

import csv
import gzip
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from templates_lib.load.azure_lmm import images_of, text_tokens_of
from templates_lib.load.rate_series import RateSeries
from templates_lib.load.workload import UNIT_COLUMNS, WorkloadShape

MAX_REPORTED_BAD_ROWS = 100
"""Bad rows beyond this are counted, not kept: a file of rubbish must not fill the memory."""
_TOLD_BAD_ROWS = 3
MAX_REQUESTS = 10_000_000
"""Most requests of one trace, which is held in memory."""


class TraceError(ValueError):
    """A trace that cannot be used at all; the text says which file, which line and what to do."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    arrival_s: float
    """Seconds since the start of the trace."""
    prompt_tokens: int
    output_tokens: int
    units: Mapping[str, float] = field(default_factory=dict)
    """Those of `UNIT_COLUMNS` that the file has."""


@dataclass(frozen=True, slots=True)
class BadRow:
    line: int
    """Line of the file, the header is line 1."""
    problem: str


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """n requests in order of arrival; the first arrives at 0 or later."""

    id: str
    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    bad_rows: tuple[BadRow, ...] = ()
    """The first `MAX_REPORTED_BAD_ROWS` rows that were skipped."""
    bad_count: int = 0
    units: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """(n,) each: as of `WorkloadShape`."""

    @property
    def left_out(self) -> str:
        """Say how many rows were skipped and what is wrong with the first of them, for people; empty: none was."""
        if not self.bad_rows:
            return ""
        rows, first = self.bad_count + len(self.arrival_s), self.bad_rows[:_TOLD_BAD_ROWS]
        told = [f"line {row.line}: {row.problem}" for row in first]
        more = [f"and {self.bad_count - len(first):,} more"] if self.bad_count > len(first) else []
        return "; ".join([f"{self.id}: {self.bad_count:,} of {rows:,} rows are left out", *told, *more])

    @property
    def duration_s(self) -> float:
        return float(self.arrival_s[-1])

    @property
    def requests_per_s(self) -> float:
        """Mean arrival rate from 0 to the last arrival; raises TraceError where all arrive at once."""
        if self.duration_s <= 0:
            raise TraceError(f"{self.id}: a rate needs arrivals at two different times; use it as a shape of lengths")
        return len(self.arrival_s) / self.duration_s

    @property
    def cv(self) -> float:
        """Burstiness: standard deviation over mean of the gaps between arrivals (Poisson: 1)."""
        return float(np.diff(self.arrival_s).std() * self.requests_per_s)

    def shape(self) -> WorkloadShape:
        return WorkloadShape(self.id, self.prompt_tokens, self.output_tokens, self.id, self.units)

    def scaled_to(self, requests_per_s: float) -> "Trace":
        """The same requests, all gaps scaled alike, at this mean rate (Coral, section 6.1: uniform scaling)."""
        return replace(self, arrival_s=self.arrival_s * (self.requests_per_s / requests_per_s))

    def rates(self, window_s: float) -> RateSeries:
        """Requests per second and burstiness of each window; the last window may be partly empty.

        A gap counts where it starts. A window with fewer than two gaps says nothing of burstiness: cv 1.
        """
        window = (self.arrival_s / window_s).astype(np.int64)
        windows = int(window[-1]) + 1
        gaps = np.diff(self.arrival_s)
        count = np.bincount(window[:-1], minlength=windows)
        known = np.maximum(count, 1)
        mean = np.bincount(window[:-1], gaps, windows) / known
        variance = np.maximum(np.bincount(window[:-1], gaps**2, windows) / known - mean**2, 0)
        usable = (count >= 2) & (mean > 0)
        cv = np.divide(np.sqrt(variance), mean, out=np.ones(windows), where=usable)
        return RateSeries(self.id, window_s, np.bincount(window, minlength=windows) / window_s, cv, self.id)


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """Column names of one kind of file; `arrival` is empty where the file has lengths only."""

    name: str
    arrival: str
    prompt: str
    output: str
    seconds: Callable[[str], float]
    squared_images: str = ""
    """Column of the square of the number of images (`templates_lib.load.azure_lmm`), whose tokens `prompt` counts."""

    @property
    def columns(self) -> frozenset[str]:
        """Those that a file of this kind has."""
        return frozenset({self.arrival, self.prompt, self.output, self.squared_images} - {""})


def _iso_seconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _milliseconds(text: str) -> float:
    return float(text) / 1000


FORMATS = (
    TraceFormat("medley", "arrival_s", "input_tokens", "output_tokens", float),
    TraceFormat("azure-lmm", "TIMESTAMP", "ContextTokens", "GeneratedTokens", _iso_seconds, "NumImages"),
    TraceFormat("azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", _iso_seconds),
    TraceFormat("mooncake", "timestamp_ms", "input_tokens", "output_tokens", _milliseconds),
    TraceFormat("burstgpt", "Timestamp", "Request tokens", "Response tokens", float),
    TraceFormat("vidur", "", "num_prefill_tokens", "num_decode_tokens", float),
    TraceFormat("lengths", "", "input_tokens", "output_tokens", float),
)


def open_text(path: Path) -> TextIO:
    """A CSV file, gzipped or not, as text. Raises TraceError when it is not there."""
    try:
        return gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="")
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror})") from error


def iterate_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, row) of a CSV file with a header, streaming. Raises TraceError for a file that ends too early."""
    line = 1
    with open_text(path) as text:
        try:
            reader = csv.DictReader(text)
            for row in reader:
                line = reader.line_num
                yield line, {k: v or "" for k, v in row.items() if k is not None}
        except (EOFError, gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
            raise TraceError(f"{path}: unreadable after line {line} ({error}); is the file whole?") from error


def iterate_requests(path: Path) -> Iterator[tuple[int, TraceRequest | BadRow]]:
    """(line, request or what is wrong with it) of any known format, streaming, in the file's order.

    Arrivals are as in the file (Azure: Unix time); files that hold lengths only give 0 for all.
    Raises TraceError for unknown columns or a truncated file.
    """
    chosen: TraceFormat | None = None
    for line, row in iterate_rows(path):
        if chosen is None:
            chosen = _format_of(path, row)
        try:
            yield line, _request(chosen, row)
        except ValueError as error:
            yield line, BadRow(line, str(error))


def read_trace(path: Path, *, name: str = "") -> Trace:
    """A whole trace, sorted by arrival and shifted to start at 0; bad rows are skipped and reported in it.

    Raises TraceError for unknown columns, a truncated file, no good row, or more than MAX_REQUESTS requests.
    """
    arrivals: list[float] = []
    prompts: list[int] = []
    outputs: list[int] = []
    units: list[Mapping[str, float]] = []
    bad: list[BadRow] = []
    bad_count = 0
    for _line, item in iterate_requests(path):
        if isinstance(item, BadRow):
            bad_count += 1
            if len(bad) < MAX_REPORTED_BAD_ROWS:
                bad.append(item)
            continue
        if len(arrivals) == MAX_REQUESTS:
            raise TraceError(f"{path}: more than {MAX_REQUESTS:,} requests: cut the file")
        arrivals.append(item.arrival_s)
        prompts.append(item.prompt_tokens)
        outputs.append(item.output_tokens)
        units.append(item.units)
    if not arrivals:
        first = f"; the first problem is on line {bad[0].line}: {bad[0].problem}" if bad else ""
        raise TraceError(f"{path}: no usable request in {bad_count} rows{first}")
    times = np.array(arrivals)
    order = np.argsort(times, kind="stable")
    lengths = np.array(prompts, np.int32)[order], np.array(outputs, np.int32)[order]
    columns = {unit: np.array([each[unit] for each in units])[order] for unit in units[0]}
    return Trace(name or path.name, times[order] - times.min(), *lengths, tuple(bad), bad_count, columns)


def _format_of(path: Path, row: dict[str, str]) -> TraceFormat:
    for known in FORMATS:
        if known.columns <= row.keys():
            return known
    wanted = "; ".join(", ".join(filter(None, (f.arrival, f.squared_images, f.prompt, f.output))) for f in FORMATS)
    raise TraceError(f"{path}: columns {', '.join(row)} are none of the known kinds: {wanted}")


def _request(known: TraceFormat, row: dict[str, str]) -> TraceRequest:
    arrival = _number(row, known.arrival, known.seconds) if known.arrival else 0.0
    prompt, output = _tokens(row, known.prompt), _tokens(row, known.output)
    if known.squared_images:
        images = images_of(_units(row, known.squared_images))
        text = text_tokens_of(prompt, images) if images else prompt
        return TraceRequest(arrival, text, output, {"images": float(images), "image_tokens": float(prompt - text)})
    return TraceRequest(arrival, prompt, output, {unit: _units(row, unit) for unit in UNIT_COLUMNS if unit in row})


def _units(row: dict[str, str], column: str) -> float:
    value = _number(row, column, float)
    if value < 0:
        raise ValueError(f"{column} is {row[column]}, and cannot be less than 0")
    return value


def _number(row: dict[str, str], column: str, convert: Callable[[str], float]) -> float:
    try:
        value = convert(row[column])
    except ValueError:
        raise ValueError(
            f"{column} is {row[column]!r}, not a {'time' if convert is _iso_seconds else 'number'}"
        ) from None
    if not math.isfinite(value):
        raise ValueError(f"{column} is {row[column]!r}, not a finite number")
    return value


def _tokens(row: dict[str, str], column: str) -> int:
    value = _number(row, column, float)
    if value < 1 or value != int(value) or value > np.iinfo(np.int32).max:
        raise ValueError(f"{column} is {row[column]}, not a whole number of tokens of at least 1")
    return int(value)
