"""Measurements by local nodes: rents one for each job, waits for what it writes, and gives it back."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kind import LocalKind
from control.cloud.node import CloudNodeState, NodeRequest
from templates_lib.ports.source import Progress
from templates_lib.values.offer import Market
from templates_lib.values.profile_row import Header

PATIENCE_S = 600.0
"""Seconds for one batch of nodes: a kind with a small share of a slow processor takes minutes."""
_POLL_S = 0.1


class SweepError(ValueError):
    """A node could not be measured; the message has its last words."""


@dataclass(frozen=True, slots=True)
class MeasurementJob:
    kind: LocalKind
    dtype: str
    python: Path
    """Python that has what is measured."""
    what: tuple[str, ...]
    """Arguments of `python -m agents.profile`."""


@dataclass(frozen=True, slots=True)
class _Running:
    job: MeasurementJob
    request: NodeRequest
    out: Path

    def lines(self) -> tuple[int, tuple[bytes, ...]]:
        """Return how many lines there will be (0: not known yet), and those that are whole: the node may be writing."""
        lines = self.out.read_bytes().split(b"\n")[:-1] if self.out.exists() else []
        return (msgspec.json.decode(lines[0], type=Header).lines, tuple(lines[1:])) if lines else (0, ())


def run_jobs(jobs: Sequence[MeasurementJob], work: Path, progress: Progress) -> list[tuple[bytes, ...]]:
    """Run the jobs and return what each wrote behind its header, a line a measurement. As many run at once as this
    machine has processors for, so that none waits for another. `work`: a directory that nobody else uses. Raises
    SweepError."""
    found: list[tuple[bytes, ...]] = []
    for batch in _batches(jobs, float(os.cpu_count() or 1)):
        found += _run_together(batch, work, progress)
    return found


def _batches(jobs: Sequence[MeasurementJob], cores: float) -> Iterator[tuple[MeasurementJob, ...]]:
    batch: list[MeasurementJob] = []
    for job in jobs:
        if batch and sum(e.kind.cpu_cores for e in batch) + job.kind.cpu_cores > cores:
            yield tuple(batch)
            batch = []
        batch.append(job)
    if batch:
        yield tuple(batch)


def _run_together(jobs: tuple[MeasurementJob, ...], work: Path, progress: Progress) -> list[tuple[bytes, ...]]:
    cloud = LocalCloud(work, [job.kind for job in jobs])
    running = [_prepared(number, job, work) for number, job in enumerate(jobs)]
    with _rented(cloud, running):
        give_up = time.monotonic() + PATIENCE_S
        while True:
            alive = {n.name for n in cloud.list({}, _now()) if n.state is CloudNodeState.RUNNING}
            written = [one.lines() for one in running]
            done, expected = (sum(counts) for counts in zip(*((len(lines), n) for n, lines in written), strict=True))
            if all(n for n, _ in written):
                progress("profile", done, expected)
                if done == expected:
                    return [lines for _, lines in written]
            for one, (expected_lines, lines) in zip(running, written, strict=True):
                # What it wrote was read after its life was looked at: an ended node has written all it ever will.
                if one.request.name not in alive and not 0 < expected_lines == len(lines):
                    raise SweepError(f"{one.job.kind.name} could not be profiled: {_last_words(cloud, one.request)}")
            if time.monotonic() > give_up:
                names = ", ".join(job.kind.name for job in jobs)
                raise SweepError(f"profiling {names} took more than {PATIENCE_S:g} s")
            time.sleep(_POLL_S)


@contextmanager
def _rented(cloud: LocalCloud, running: Sequence[_Running]) -> Iterator[None]:
    try:
        for one in running:
            # What an earlier sweep left, which was killed.
            cloud.terminate(one.request.name, _now())
            one.out.unlink(missing_ok=True)
            cloud.create(one.request, _now())
        yield
    finally:
        for one in running:
            cloud.terminate(one.request.name, _now())


def _prepared(number: int, job: MeasurementJob, work: Path) -> _Running:
    out = work / f"{number}.jsonl"
    command = (str(job.python), "-m", "agents.profile", "--out", str(out), "--dtype", job.dtype, *job.what)
    request = NodeRequest(f"profile-{number}", "here", "here", job.kind.name, Market.ON_DEMAND, {}, command)
    return _Running(job, request, out)


def _last_words(cloud: LocalCloud, request: NodeRequest) -> str:
    with suppress(OSError):
        lines = [line for line in cloud.log(request.name).read_text(errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1][-500:]
    return "it ended without a word; it may have run out of memory"


def _now() -> datetime:
    return datetime.now(UTC)
