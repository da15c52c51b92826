"""All edges of one node: from every node of the stage before, to every node of the stage after."""

from dataclasses import dataclass

from torch.distributed import Store  # type: ignore[attr-defined]

from agents.edges.edge import Receiver, Sender, connect_receiver, connect_sender
from agents.edges.settings import EdgeSettings


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands in its pipeline."""

    nodes: tuple[int, ...]
    """How many peers each stage has."""
    stage: int
    node: int

    def __post_init__(self) -> None:
        if not (0 <= self.stage < len(self.nodes) and 0 <= self.node < self.nodes[self.stage]):
            raise ValueError(f"stage {self.stage}, node {self.node} is not in a pipeline of {self.nodes} nodes")

    @property
    def is_last(self) -> bool:
        return self.stage == len(self.nodes) - 1


@dataclass(frozen=True, slots=True)
class Mesh:
    incoming: tuple[Receiver, ...]
    """One for each node of the stage before; none on the first stage."""
    outgoing: tuple[Sender, ...]
    """One for each node of the stage after; none on the last stage."""


def connect_mesh(store: Store, place: Place, settings: EdgeSettings) -> Mesh:
    """Waits for all neighbours, which call this too. Raises EdgeLostError.

    Every node connects its edges in one order of all edges, by stage, sender and receiver: so that two never wait for
    each other.
    """
    incoming = (
        [
            connect_receiver(store, _name(place.stage - 1, sender, place.node), settings)
            for sender in range(place.nodes[place.stage - 1])
        ]
        if place.stage
        else []
    )
    outgoing = (
        []
        if place.is_last
        else [
            connect_sender(store, _name(place.stage, place.node, receiver), settings)
            for receiver in range(place.nodes[place.stage + 1])
        ]
    )
    return Mesh(tuple(incoming), tuple(outgoing))


def _name(stage: int, sender: int, receiver: int) -> str:
    return f"edge {stage}.{sender}-{stage + 1}.{receiver}"
