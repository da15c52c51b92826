"""Traces that files name: read, with a note on the rows that were left out."""

from pathlib import Path

import numpy as np

from control.fleet_file.section import is_path
from templates_lib.load.arrivals import Arrivals
from templates_lib.load.shapes import load_shape
from templates_lib.load.traces import Trace, TraceError, read_trace
from templates_lib.load.workload import WorkloadShape

MOST_ARRIVALS = 50_000
"""Requests of a trace whose arrivals are kept with what is planned, at most."""


def arrivals_of(name: str, folder: Path, notes: list[str]) -> Arrivals:
    """The gaps of a trace with arrival times, the last one a mean gap. Notes: as `trace_of`. Raises TraceError, also
    for one that is too long, or whose requests all come at once."""
    trace = trace_of(name, folder, notes)
    if len(trace.arrival_s) > MOST_ARRIVALS:
        raise TraceError(
            f"{name}: has {len(trace.arrival_s):,} requests; at most {MOST_ARRIVALS:,} arrivals are kept: cut it"
        )
    if trace.duration_s <= 0:
        raise TraceError(f"{name}: all requests arrive at once: arrivals need two different times")
    gaps = np.diff(trace.arrival_s)
    return Arrivals(float(gaps.std() / gaps.mean()), np.append(gaps, gaps.mean()) / gaps.mean())


def shape_of(name: str, folder: Path, notes: list[str]) -> WorkloadShape:
    """A shipped shape of lengths, or that of a trace file. Notes, errors: as `trace_of`; ValueError for no such one."""
    return trace_of(name, folder, notes).shape() if is_path(name) else load_shape(name)


def trace_of(name: str, folder: Path, notes: list[str]) -> Trace:
    """`name`: of a file, relative to `folder`. What is left out of it is added to `notes`. Raises TraceError."""
    trace = read_trace(folder / name, name=name)
    if trace.left_out:
        notes.append(trace.left_out)
    return trace
