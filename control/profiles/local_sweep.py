"""Sweeps local nodes: rents one of each kind, has it measure itself, and gives it back."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kind import LocalKind
from control.cloud.node import CloudNodeState, NodeRequest
from templates_lib.offer import Market
from templates_lib.profile_row import ProfileRow
from templates_lib.source import Progress

PATIENCE_S = 600.0
"""For one batch of nodes: a kind with a small share of a slow processor takes minutes."""
_POLL_S = 0.1


class SweepError(ValueError):
    """A node could not be measured; the message has its last words."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a node writes first, and then."""

    points: int
    rows: tuple[ProfileRow, ...]

    @property
    def is_whole(self) -> bool:
        return 0 < self.points == len(self.rows)


def sweep(
    kinds: Iterable[LocalKind], weights: str, dtype: str, work: Path, progress: Progress
) -> dict[str, tuple[ProfileRow, ...]]:
    """Kind → rows. As many kinds at once as this machine has processors for, so that none waits for another.

    `weights` as `templates_lib.weights_place` has it; `work`: a directory that nobody else uses. Raises SweepError.
    """
    found: dict[str, tuple[ProfileRow, ...]] = {}
    for batch in _batches(tuple(kinds), float(os.cpu_count() or 1)):
        found |= _sweep_together(batch, weights, dtype, work, progress)
    return found


def _batches(kinds: tuple[LocalKind, ...], cores: float) -> Iterator[tuple[LocalKind, ...]]:
    batch: list[LocalKind] = []
    for kind in kinds:
        if batch and sum(k.cpu_cores for k in batch) + kind.cpu_cores > cores:
            yield tuple(batch)
            batch = []
        batch.append(kind)
    if batch:
        yield tuple(batch)


def _sweep_together(
    kinds: tuple[LocalKind, ...], weights: str, dtype: str, work: Path, progress: Progress
) -> dict[str, tuple[ProfileRow, ...]]:
    cloud = LocalCloud(work, kinds)
    files = {kind.name: work / f"{i}.jsonl" for i, kind in enumerate(kinds)}
    requests = [_request(i, kind, weights, dtype, files[kind.name]) for i, kind in enumerate(kinds)]
    with _rented(cloud, requests, files):
        give_up = time.monotonic() + PATIENCE_S
        while True:
            running = {n.name for n in cloud.list({}, _now()) if n.state is CloudNodeState.RUNNING}
            swept = {name: _read(path) for name, path in files.items()}
            points = [one.points for one in swept.values()]
            if all(points):
                progress("profile", sum(len(one.rows) for one in swept.values()), sum(points))
            if all(one.is_whole for one in swept.values()):
                return {name: one.rows for name, one in swept.items()}
            for request in requests:
                if request.name not in running and not _read(files[request.instance_type]).is_whole:
                    raise SweepError(f"{request.instance_type} could not be profiled: {_last_words(cloud, request)}")
            if time.monotonic() > give_up:
                raise SweepError(f"profiling {', '.join(files)} took more than {PATIENCE_S:g} s")
            time.sleep(_POLL_S)


@contextmanager
def _rented(cloud: LocalCloud, requests: list[NodeRequest], files: dict[str, Path]) -> Iterator[None]:
    try:
        for request in requests:
            # What an earlier sweep left, which was killed.
            cloud.terminate(request.name, _now())
            files[request.instance_type].unlink(missing_ok=True)
            cloud.create(request, _now())
        yield
    finally:
        for request in requests:
            cloud.terminate(request.name, _now())


def _request(number: int, kind: LocalKind, weights: str, dtype: str, out: Path) -> NodeRequest:
    command = (sys.executable, "-m", "agents.profile", "--weights", weights, "--dtype", dtype, "--out", str(out))
    return NodeRequest(f"profile-{number}", "here", "here", kind.name, Market.ON_DEMAND, {}, command)


def _read(path: Path) -> Swept:
    """Whole lines only: the node may be writing."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    if not lines:
        return Swept(0, ())
    points = int(msgspec.json.decode(lines[0], type=dict[str, int])["points"])
    return Swept(points, tuple(msgspec.json.decode(line, type=ProfileRow) for line in lines[1:]))


def _last_words(cloud: LocalCloud, request: NodeRequest) -> str:
    with suppress(OSError):
        lines = [line for line in cloud.log(request.name).read_text(errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1][-500:]
    return "it ended without a word; it may have run out of memory"


def _now() -> datetime:
    return datetime.now(UTC)
