"""Records on disk of local nodes, from before each starts until after its last process has ended."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from control.cloud.errors import GiveUpError
from control.cloud.local.confinement import Confinement
from control.file_lock import turn
from templates_lib.values.offer import Market


@dataclass(frozen=True, slots=True)
class Leader:
    """A process by more than its pid, which another one may have some day."""

    pid: Annotated[int, msgspec.Meta(ge=1)]
    started_at: float
    """Seconds since 1970, by this system's clock."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """Record of a node without what it was started with: that may hold secrets."""

    name: str
    instance_type: str
    zone: str
    market: Market
    tags: Mapping[str, str]
    confinement: Confinement
    leader: Leader | None = None
    """None: it was being started when this was written."""
    ending: bool = False


class RecordStore:
    """One file a node below `home`; several control planes may use it at once."""

    def __init__(self, home: Path) -> None:
        self._nodes = home / "nodes"
        self._lock = home / "lock"

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the records alone, among all processes and threads. The lock ends with whoever holds it."""
        try:
            self._nodes.mkdir(parents=True, exist_ok=True, mode=0o700)
            with turn(self._lock):
                yield
        except OSError as error:
            raise GiveUpError(f"the local cloud cannot use {self._nodes.parent}: {error}") from error

    def get(self, name: str) -> NodeRecord | None:
        path = self._path(name)
        return self._read(path) if path.exists() else None

    def all(self) -> tuple[NodeRecord, ...]:
        """List all records by name."""
        return tuple(self._read(path) for path in sorted(self._nodes.glob("*.json")))

    def put(self, record: NodeRecord) -> None:
        """Whole or not at all, and on disk when this returns."""
        new = self._nodes / f"{record.name}.new"
        with new.open("wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path(record.name))

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._nodes / f"{name}.json"

    @staticmethod
    def _read(path: Path) -> NodeRecord:
        try:
            return msgspec.json.decode(path.read_bytes(), type=NodeRecord)
        except msgspec.DecodeError as error:
            text = f"{path} is damaged ({error}): end the node's processes, if there are any, and remove it"
            raise GiveUpError(text) from error
