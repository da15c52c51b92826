"""Choice of the requests that give up their KV cache, so that an older one can go on."""

from collections.abc import Iterable

from agents.scheduler.block_book import BlockBook
from agents.scheduler.sequence import ActiveRun, Sequence


def victims(
    sequence: Sequence, held: ActiveRun, needed: int, running: Iterable[Sequence], books: list[list[BlockBook]]
) -> list[Sequence] | None:
    """Return as many of the youngest as leave `needed` free blocks on each of its nodes; None where older ones hold
    them. `books`: of the nodes of each stage."""
    found: list[Sequence] = []
    for stage, node in enumerate(held.nodes):
        book = books[stage][node]
        short = needed - book.free - _freed(found, stage, node, book)
        for other in sorted(running, key=lambda s: s.turn, reverse=True) if short > 0 else ():
            if short <= 0 or other.turn <= sequence.turn:
                break
            if other in found or other.is_pinned:
                continue
            if other.admission and other.admission.nodes[stage] == node:
                found.append(other)
                # Of all together: blocks that they alone share are free once the last of them is over.
                short = needed - book.free - _freed(found, stage, node, book)
        if short > 0:
            return None
    return found


def _freed(found: Iterable[Sequence], stage: int, node: int, book: BlockBook) -> int:
    held = [v.admission for v in found if v.admission and v.admission.nodes[stage] == node]
    return book.freed_by((each.blocks - len(each.known[stage]), each.known[stage]) for each in held)
