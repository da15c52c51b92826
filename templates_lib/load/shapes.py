"""The catalogue of workload shapes and rate curves that ship with Medley: small extracts of public traces."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from templates_lib.load.rate_files import read_rate_series
from templates_lib.load.rate_series import RateSeries
from templates_lib.load.traces import Trace, read_trace
from templates_lib.load.workload import WorkloadShape
from templates_lib.values.nearest_name import nearest_name


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics that an extract must preserve of the trace it was taken from."""

    mean_prompt_tokens: float
    mean_output_tokens: float
    p99_prompt_tokens: float
    p99_output_tokens: float
    prefill_context: float
    decode_context: float


@dataclass(frozen=True, slots=True)
class ShapeFacts:
    """Source of a shape, and how near the extract is to the whole."""

    id: str
    file: str
    source: str
    licence: str
    date: str
    """Day the trace was recorded or, where that is not stated, published (ISO 8601, as far as known)."""
    method: str
    requests: int
    """Requests of the whole trace."""
    full: Statistics
    extract: Statistics


@dataclass(frozen=True, slots=True)
class RateFacts:
    id: str
    file: str
    source: str
    licence: str
    date: str
    method: str
    window_s: float


@dataclass(frozen=True, slots=True)
class Catalogue:
    shapes: tuple[ShapeFacts, ...]
    rates: tuple[RateFacts, ...]


def _folder() -> Path:
    return Path(str(files("templates_lib"))) / "data" / "workloads"


@cache
def catalogue() -> Catalogue:
    """Sources, licences, dates and statistics of everything shipped."""
    return msgspec.json.decode((_folder() / "catalogue.json").read_bytes(), type=Catalogue)


def load_shape(name: str) -> WorkloadShape:
    """Raises ValueError with the nearest name when there is no such shape."""
    known = {facts.id: facts for facts in catalogue().shapes}
    if name not in known:
        raise ValueError(_unknown("workload shape", name, known))
    return _shape(known[name])


def load_window(name: str) -> Trace:
    """The requests of a shipped shape that has arrivals, in order: a window of a real trace. Raises ValueError with the
    nearest name when there is none, and for a shape of lengths alone."""
    known = {facts.id: facts for facts in catalogue().shapes}
    if name not in known:
        raise ValueError(_unknown("workload shape", name, known))
    trace = read_trace(_folder() / known[name].file, name=name)
    if trace.duration_s <= 0:
        raise ValueError(f"workload shape {name!r} has lengths and no arrivals; take a window of a trace")
    return trace


def load_rates(name: str) -> RateSeries:
    """A shipped rate series; scale it with `scaled_to`. Raises ValueError with the nearest name when there is none."""
    known = {facts.id: facts for facts in catalogue().rates}
    if name not in known:
        raise ValueError(_unknown("rate series", name, known))
    facts = known[name]
    return read_rate_series(_folder() / facts.file, facts.window_s)[name]


def _shape(facts: ShapeFacts) -> WorkloadShape:
    trace = read_trace(_folder() / facts.file, name=facts.id)
    return WorkloadShape(facts.id, trace.prompt_tokens, trace.output_tokens, facts.source, trace.units)


def _unknown(kind: str, name: str, known: dict[str, ShapeFacts] | dict[str, RateFacts]) -> str:
    return f"unknown {kind} {name!r}; {nearest_name(name, known)}"
