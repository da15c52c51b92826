"""Profiles on disk, one file for each subject: a profile is a fact of the machine that it was measured on, and stays
there when databases come and go."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from control.file_lock import turn
from control.profiles.rentals import Rentals
from control.profiles.subject import RentedSubject
from templates_lib.values.gpu import Gpu
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.node_profile import NodeProfile
from templates_lib.values.profile_row import ProfileRow

FORMAT = "medley/profile/v7"


@dataclass(frozen=True, slots=True)
class StoredProfile:
    format: str
    gpu: Gpu
    """GPU as which the node looks to the estimate that the profile replaces."""
    node: NodeConfig
    profile: NodeProfile
    rows: tuple[ProfileRow, ...]
    """Rows that it was fitted to."""
    rented: RentedSubject | None = None
    """What was measured, of a node that was rented for it; None: a node of this machine."""


class ProfileStore:
    """Profiles in the directory `home`; several processes may use it at once."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def get(self, subject: str) -> StoredProfile | None:
        """Return the profile of a subject; None also for a file that is damaged or of another format, which is measured
        again."""
        return self._read(self._path(subject))

    def all(self) -> tuple[StoredProfile, ...]:
        found = (self._read(path) for path in sorted(self._home.glob("*.json")))
        return tuple(stored for stored in found if stored is not None)

    def put(self, stored: StoredProfile) -> None:
        """Whole or not at all."""
        self._home.mkdir(parents=True, exist_ok=True)
        path = self._path(stored.profile.subject)
        new = path.with_suffix(".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(stored), indent=1))
        new.replace(path)

    @contextmanager
    def measuring(self) -> Iterator[Path]:
        """Hold this machine alone, as far as Medley is concerned, and yield the directory for what is on the way."""
        work = self._home / "work"
        work.mkdir(parents=True, exist_ok=True)
        with turn(self._home / "lock"):
            yield work

    @property
    def rentals(self) -> Rentals:
        """Nodes that are rented to be measured."""
        return Rentals(self._home / "rented")

    def _path(self, subject: str) -> Path:
        return self._home / f"{subject}.json"

    @staticmethod
    def _read(path: Path) -> StoredProfile | None:
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=StoredProfile)
        except (OSError, msgspec.DecodeError):
            return None
        return stored if stored.format == FORMAT else None
