"""Choice of the requests that give up their KV cache, so that an older one can go on."""

from collections.abc import Iterable

from agents.scheduler.groups import Groups
from agents.scheduler.sequence import ActiveRun, Sequence


def victims(
    sequence: Sequence, held: ActiveRun, needed: int, running: Iterable[Sequence], groups: Groups
) -> list[Sequence] | None:
    """Return as many of the youngest as leave `needed` free blocks on each of its nodes; None where older ones hold
    them."""
    found: list[Sequence] = []
    for stage, node in enumerate(held.nodes):
        short = needed - groups.free(stage, node) - _freed(found, stage, node)
        for other in sorted(running, key=lambda s: -s.arrival) if short > 0 else ():
            if short <= 0 or other.arrival <= sequence.arrival:
                break
            if other in found or other.is_pinned:
                continue
            if other.admission and other.admission.nodes[stage] == node:
                found.append(other)
                short -= other.admission.blocks
        if short > 0:
            return None
    return found


def _freed(found: Iterable[Sequence], stage: int, node: int) -> int:
    return sum(v.admission.blocks for v in found if v.admission and v.admission.nodes[stage] == node)
