"""Pictures of one request over the encoders of a pool: each part that can be encoded alone goes to the encoder that is
done first (ModServe, section 4.3, insights 2 and 6).

A part is a picture, or a tile of one where the model's tiles do not see each other. Large requests so use many encoders
at once, and a burst of pictures does not queue behind one of them.
"""

from collections.abc import Collection, Sequence

from policies.pools.pending_work import PendingWork

_NOBODY: frozenset[str] = frozenset()


def spread(parts: Sequence[float], pending: PendingWork, unusable: Collection[str] = _NOBODY) -> list[str]:
    """Name the encoder of each part, in the order of `parts` (units of work), and note what is sent there. The largest
    part chooses first, as whoever chooses last has to fit in. Raises LookupError where no encoder can be used."""
    chosen = [""] * len(parts)
    for place in sorted(range(len(parts)), key=lambda each: -parts[each]):
        member = pending.least(unusable)
        if member is None:
            raise LookupError("no encoder can be used: start one, or wait for one that is loading")
        pending.send(member, parts[place])
        chosen[place] = member
    return chosen
