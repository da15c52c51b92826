"""Logs of nodes: files where they are this machine's, which the local cloud keeps after a node is gone, too."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from control.lifecycle.held_node import HeldNode
from templates_lib.values.clouds import LOCAL

_PLACES = ("control/local-cloud/logs", "up/local-cloud/logs")
"""Folders below the home of Medley: of `medley reconcile` and of `medley up`."""
_MOST_BYTES = 1 << 20
_SEARCHED_BYTES = 16 << 20
_MOST_LINE = 4_000
"""Characters of a line that a search shows."""


@dataclass(frozen=True, slots=True)
class NodeLog:
    node: str
    place: int
    """Which of the instance's nodes it is."""
    text: str
    """The end of its output; empty where it is not here."""
    size_bytes: int
    """Size of the whole log."""
    missing: str
    """Why there is no text, and where to look; empty: there is."""


def node_log(home: Path, held: HeldNode, tail_bytes: int) -> NodeLog:
    """Read the end of a node's log. Bytes that are no UTF-8 are replaced: whatever a process wrote, it can be shown."""
    if held.cloud != LOCAL:
        return _missing(held, f"node {held.name} is a machine of {held.cloud}: its log is there")
    file = _opened(home, held)
    if file is None:
        return _missing(held, f"the log of node {held.name} is on the machine whose `medley reconcile` launched it")
    with file:
        size = file.seek(0, 2)
        file.seek(max(0, size - tail_bytes))
        text = file.read(tail_bytes).decode(errors="replace")
    return NodeLog(node=held.name, place=held.place, text=text, size_bytes=size, missing="")


@dataclass(frozen=True, slots=True)
class FoundLines:
    """Lines of one node's log that hold a text."""

    node: str
    place: int
    """Which of the instance's nodes it is."""
    lines: tuple[str, ...]
    """The newest of them, the oldest first."""
    are_all: bool
    """False: there may be more, further back."""
    missing: str
    """Why there are none, and where to look; empty: the log is here."""


def found_lines(home: Path, held: HeldNode, text: str, most: int) -> FoundLines:
    """Find the newest `most` lines of a node's log that hold `text`, whatever its case, in the last 16 MiB of it."""
    log = node_log(home, held, _SEARCHED_BYTES)
    wanted = text.casefold()
    found = [line for line in log.text.splitlines() if wanted in line.casefold()]
    return FoundLines(
        node=log.node,
        place=log.place,
        lines=tuple(line[:_MOST_LINE] for line in found[-most:]),
        are_all=len(found) <= most and log.size_bytes <= _SEARCHED_BYTES,
        missing=log.missing,
    )


def lines_after(home: Path, held: HeldNode, begin: int) -> tuple[list[str], int]:
    """Read the whole lines of a node's log from byte `begin` on, a mebibyte of them at most; return them, and where
    the next ones begin. None where the log is not here, and from its beginning where it has become shorter."""
    file = _opened(home, held)
    if file is None:
        return [], begin
    with file:
        file.seek(begin if begin <= file.seek(0, 2) else 0)
        begin = file.tell()
        found = file.read(_MOST_BYTES)
    whole = found[: found.rfind(b"\n") + 1] if len(found) < _MOST_BYTES or b"\n" in found else found
    return whole.decode(errors="replace").splitlines(), begin + len(whole)


def _opened(home: Path, held: HeldNode) -> BinaryIO | None:
    """Open the log of a node where it is on this machine."""
    for place in _PLACES:
        with suppress(OSError):
            return (home / place / f"{held.name}.log").open("rb")
    return None


def _missing(held: HeldNode, why: str) -> NodeLog:
    return NodeLog(node=held.name, place=held.place, text="", size_bytes=0, missing=why)
