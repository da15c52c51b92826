"""Nodes rented to be measured, on record from before their cloud is asked for them until it lists them no more.

A record is a file that its run holds locked, and the kernel unlocks it however the run ends: a record that nobody holds
is of a run that was killed, and its node may still cost money.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from control.cloud.ssh.own_host import OwnHost
from control.file_lock import try_lock


@dataclass(frozen=True, slots=True)
class Rental:
    node: str
    """Name of the node at its cloud."""
    cloud: str
    zone: str
    instance_type: str
    config: str
    usd_per_hour: float
    asked_at: str
    """ISO 8601, UTC."""
    until: str
    """When it is to be given back, ISO 8601, UTC."""
    hosts: tuple[OwnHost, ...] = ()
    """Own machines, any of which may have it: whoever gives it back may know of none of them."""


@dataclass(frozen=True, slots=True)
class RentalRecord:
    rental: Rental
    held: bool
    """Whether the run that has rented it goes on."""


class HeldRental:
    """A record that this process holds."""

    def __init__(self, path: Path, file: IO[bytes], rental: Rental) -> None:
        self.rental = rental
        self.path = path
        self._file = file

    def remove(self) -> None:
        """The node is gone, or never was."""
        self.path.unlink(missing_ok=True)
        self._file.close()

    def leave(self) -> None:
        """The node may still be there: whoever looks finds it."""
        self._file.close()


class Rentals:
    """Records in the directory `home`; several processes may use it at once."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def open(self, rental: Rental) -> HeldRental:
        """Record that a node is about to be rented: on disk, whole and held, when this returns."""
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(rental.node)
        new = path.with_suffix(f".{os.getpid()}.new")
        file = new.open("wb")
        try_lock(file)
        file.write(msgspec.json.encode(rental, enc_hook=str))
        file.flush()
        os.fsync(file.fileno())
        new.replace(path)
        return HeldRental(path, file, rental)

    def all(self) -> tuple[RentalRecord, ...]:
        """Return what is on record, by name. A file that is damaged is none of ours."""
        found = []
        for file, rental, free in self._read():
            file.close()
            found.append(RentalRecord(rental, held=not free))
        return tuple(found)

    def take_left(self, cloud: str = "", node: str = "") -> tuple[HeldRental, ...]:
        """Take over what runs have left that were killed, of a cloud or node (empty: of all)."""
        found = []
        for file, rental, free in self._read():
            if free and cloud in ("", rental.cloud) and node in ("", rental.node):
                found.append(HeldRental(self._path(rental.node), file, rental))
            else:
                file.close()
        return tuple(found)

    def _read(self) -> Iterator[tuple[IO[bytes], Rental, bool]]:
        """Yield each record's open file, what it says, and whether it was free, and is ours from now on."""
        for path in sorted(self._home.glob("*.json")):
            try:
                file = path.open("r+b")
            except FileNotFoundError:  # given back meanwhile
                continue
            try:
                rental = msgspec.json.decode(file.read(), type=Rental, dec_hook=_path_of)
            except msgspec.DecodeError:
                file.close()
                continue
            yield file, rental, try_lock(file)

    def _path(self, node: str) -> Path:
        return self._home / f"{node}.json"


def _path_of(kind: type, value: object) -> object:
    """Paths are text in a record. Raises NotImplementedError for what else a record has not."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(f"a record of a rental has no {kind.__name__}")
