"""Traces that files name: read, with a note on the rows that were left out."""

from pathlib import Path

from control.fleet_file.section import is_path
from templates_lib.load.shapes import load_shape
from templates_lib.load.traces import Trace, read_trace
from templates_lib.load.workload import WorkloadShape


def shape_of(name: str, folder: Path, notes: list[str]) -> WorkloadShape:
    """A shipped shape of lengths, or that of a trace file. Notes, errors: as `trace_of`; ValueError for no such one."""
    return trace_of(name, folder, notes).shape() if is_path(name) else load_shape(name)


def trace_of(name: str, folder: Path, notes: list[str]) -> Trace:
    """`name`: of a file, relative to `folder`. What is left out of it is added to `notes`. Raises TraceError."""
    trace = read_trace(folder / name, name=name)
    if trace.left_out:
        notes.append(trace.left_out)
    return trace
