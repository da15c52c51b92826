"""All edges of one worker: from every worker that sends it rows, to every worker that gets its own."""

from dataclasses import dataclass
from functools import cache, partial

from torch.distributed import Store  # type: ignore[attr-defined]

from agents.edges.edge import Receiver, Sender, connect_receiver, connect_sender
from agents.edges.pair import gloo_device
from agents.edges.settings import EdgeSettings


@dataclass(frozen=True, slots=True)
class MeshPlace:
    """Position of a worker in its pipeline, by the numbers of its workers."""

    worker: int
    sources: tuple[int, ...]
    targets: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(source >= self.worker for source in self.sources) or any(to <= self.worker for to in self.targets):
            raise ValueError(f"rows go from lower to higher workers only, not as for {self}")


@dataclass(frozen=True, slots=True)
class Mesh:
    """Edges by the number of the worker at the other end."""

    incoming: dict[int, Receiver]
    """Empty where the model begins."""
    outgoing: dict[int, Sender]
    """Empty where the model ends."""


def connect_mesh(store: Store, place: MeshPlace, settings: EdgeSettings) -> Mesh:
    """Waits for all neighbours, which call this too. Raises LinkLostError.

    Every worker connects its edges in one order of all edges, by sender and receiver: so that no two wait for each
    other. Its sources have lower numbers than itself, so that what comes in is first.
    """
    me, gloo = place.worker, cache(partial(gloo_device, settings.interface))
    incoming = {peer: connect_receiver(store, _name(peer, me), settings, gloo) for peer in sorted(place.sources)}
    outgoing = {peer: connect_sender(store, _name(me, peer), settings, gloo) for peer in sorted(place.targets)}
    return Mesh(incoming, outgoing)


def _name(sender: int, receiver: int) -> str:
    return f"edge {sender}-{receiver}"
