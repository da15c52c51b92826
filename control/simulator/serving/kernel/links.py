"""Time of a transfer from node to node."""

from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.records import Node


@compiled
def transfer_end_s(source: Node, target: Node, size: float, begin_s: float) -> float:
    """When `size` bytes, which may leave from `begin_s` on, are there. Each node's network is busy with them for as
    long as it takes at its own rate, in one direction."""
    start_s = max(begin_s, source.out_s)
    out_s = start_s + size / source.bytes_per_s
    in_s = max(start_s, target.in_s) + size / target.bytes_per_s
    source.out_s = out_s
    target.in_s = in_s
    return float(max(out_s, in_s))
