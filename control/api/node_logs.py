"""The end of the logs of nodes on this machine, which the local cloud keeps after they are gone, too."""

from pathlib import Path

from pydantic import BaseModel, Field

from control.lifecycle.held_node import HeldNode
from templates_lib.values.clouds import LOCAL

_PLACES = ("control/local-cloud/logs", "up/local-cloud/logs")
"""Folders below the home of Medley: of `medley reconcile` and of `medley up`."""


class NodeLog(BaseModel):
    node: str
    place: int = Field(description="Which of the instance's nodes it is.")
    text: str = Field(description="The end of its output; empty where it is not here.")
    size_bytes: int = Field(description="Size of the whole log.")
    missing: str = Field(description="Why there is no text, and where to look; empty: there is.")


def node_log(home: Path, held: HeldNode, tail_bytes: int) -> NodeLog:
    """Bytes that are no UTF-8 are replaced: whatever a process wrote, it can be shown."""
    if held.cloud != LOCAL:
        return _missing(held, f"node {held.name} is a machine of {held.cloud}: its log is there")
    for place in _PLACES:
        path = home / place / f"{held.name}.log"
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - tail_bytes))
                text = file.read(tail_bytes).decode(errors="replace")
        except OSError:
            continue
        return NodeLog(node=held.name, place=held.place, text=text, size_bytes=size, missing="")
    return _missing(held, f"the log of node {held.name} is on the machine whose `medley reconcile` launched it")


def _missing(held: HeldNode, why: str) -> NodeLog:
    return NodeLog(node=held.name, place=held.place, text="", size_bytes=0, missing=why)
