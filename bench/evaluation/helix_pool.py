"""Helix: one model on a fixed pool, every node rented, throughput as the maximum flow through the placement.

The Coral paper compares with Helix apart (section 6.6), because Helix does not choose what to rent. A placement gives
each node a run of consecutive layers; a request may enter a node in the middle of its run (partial inference) and must
pass every layer once. The most that can flow from layer 0 to the last layer, with each node bounded by its own
throughput, is what the pool serves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from policies.integer_program import IntegerProgram


@dataclass(frozen=True, slots=True)
class PlacedNode:
    config: str
    first_layer: int
    layers: int
    requests_per_s: float
    """The most that this node passes through all the layers it holds, its network included."""
    usd_per_hour: float

    @property
    def end(self) -> int:
        return self.first_layer + self.layers


@dataclass(frozen=True, slots=True)
class FixedPool:
    requests_per_s: float
    usd_per_hour: float


def helix_pool(nodes: Sequence[PlacedNode], layers: int) -> FixedPool:
    """What the whole pool serves and costs. Linear program of the maximum flow; edges are (node → node) hand-overs."""
    program = IntegerProgram(gap=0.0)
    bound = sum(n.requests_per_s for n in nodes)
    into: list[dict[int, float]] = [{} for _ in nodes]
    out: list[dict[int, float]] = [{} for _ in nodes]
    served: list[int] = []
    for i, node in enumerate(nodes):
        if node.first_layer == 0:
            into[i][program.add(0.0, upper=bound, integer=False)] = 1.0
        if node.end == layers:
            served.append(program.add(-1.0, upper=bound, integer=False))
            out[i][served[-1]] = -1.0
        for j, successor in enumerate(nodes):
            if successor.first_layer <= node.end < successor.end and j != i:
                edge = program.add(0.0, upper=bound, integer=False)
                out[i][edge] = -1.0
                into[j][edge] = 1.0
    for node, arriving, leaving in zip(nodes, into, out, strict=True):
        program.require(arriving, upper=node.requests_per_s)
        program.require(arriving | leaving, lower=0.0, upper=0.0)
    values = program.minimise()
    return FixedPool(float(sum(values[s] for s in served)), sum(n.usd_per_hour for n in nodes))
