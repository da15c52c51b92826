"""The file that a scheduler is started with. Who may speak to it may change while it runs; all else stays."""

import logging
import os
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from agents.scheduler.layout import PipelineLayout
from templates_lib.values.speculation import Speculation

_log = logging.getLogger(__name__)


class BadInstanceFileError(ValueError):
    """The file is not what it should be; the message says where."""


@dataclass(frozen=True, slots=True)
class InstanceFile:
    layout: PipelineLayout
    gateways: Mapping[str, str]
    """Public key → name."""
    workers: dict[str, str]
    """Public key → name of a node of the layout."""
    bind: str = "tcp://127.0.0.1:0"
    """For gateways."""
    bind_stages: str = "tcp://127.0.0.1:0"
    """For stage workers, on the private network."""
    interface: str = "127.0.0.1"
    """This node's address on the private network."""
    network: str = ""
    """Name of that network; empty: nobody said."""
    prefix_cache: bool = True
    """Whether prompts begin with KV blocks of those before them."""
    pool: str = ""
    """Path of the socket of the KV cache that models of the node share; empty: its own."""
    member: int = 0
    """Which of them this is."""
    speculation: Speculation | None = None
    """How answers are drafted; None: not at all."""


def read_instance_file(path: Path) -> InstanceFile:
    """Read the file; its gateways are always those that it has when they are looked at. Raises BadInstanceFileError
    with the file's name and the field."""
    # The stamp first: where the file is replaced in between, the next look finds another stamp and reads the new one.
    stamp = _stamp(path)
    found = _decoded(path)
    return replace(found, gateways=_GatewaysOfFile(path, found.gateways, stamp))


def write_instance_file(path: Path, instance: InstanceFile) -> None:
    """Replace the file in one step."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(msgspec.json.encode(instance))
    new.replace(path)


def allow_gateways(path: Path, gateways: Mapping[str, str]) -> None:
    """Have the scheduler that runs by this file let these gateways in, and no others. Raises BadInstanceFileError."""
    write_instance_file(path, replace(_decoded(path), gateways=dict(gateways)))


class _GatewaysOfFile(Mapping[str, str]):
    """Each call looks at the file anew: who wants all keys with their names takes `items()`, which are of one look.
    `dict()` looks once for each key, and fails with KeyError for one that goes in between."""

    def __init__(self, path: Path, gateways: Mapping[str, str], stamp: tuple[int, int]) -> None:
        """`gateways`: that the file had when it had that `stamp`, or later."""
        self._path = path
        self._seen = stamp
        self._gateways = gateways

    def __getitem__(self, key: str) -> str:
        return self._now()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def items(self) -> ItemsView[str, str]:
        return self._now().items()

    def _now(self) -> Mapping[str, str]:
        stamp = _stamp(self._path)
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._gateways = _decoded(self._path).gateways
            except BadInstanceFileError as error:
                _log.error("%s: gateways stay as they were", error)
        return self._gateways


def _decoded(path: Path) -> InstanceFile:
    try:
        return msgspec.json.decode(path.read_bytes(), type=InstanceFile)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadInstanceFileError(f"instance file {path}: {error}") from error


def _stamp(path: Path) -> tuple[int, int]:
    """Another one whenever the file was replaced; (0, 0) where there is none."""
    try:
        stat: os.stat_result = path.stat()
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_ino
