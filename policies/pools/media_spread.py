"""Pictures of one request over the encoders of a pool: each part that can be encoded alone goes to the encoder that is
done first (ModServe, section 4.3, insights 2 and 6).

A part is a picture, or a tile of one where the model's tiles do not see each other. Large requests so use many encoders
at once, and a burst of pictures does not queue behind one of them.
"""

from collections.abc import Collection, Sequence

from policies.pools.pending_work import PendingWork


def spread(parts: Sequence[float], pending: PendingWork, among: Collection[str] | None = None) -> list[str]:
    """Name the encoder of each part, in the order of `parts` (units of work), and note what is sent there. The largest
    part chooses first, as whoever chooses last has to fit in. `among`: encoders that can be used; None: all. Raises
    LookupError where there is none."""
    chosen = [""] * len(parts)
    for place in sorted(range(len(parts)), key=lambda each: -parts[each]):
        member = pending.least(among)
        if member is None:
            raise LookupError("no encoder can be used: start one, or wait for one that is loading")
        pending.send(member, parts[place])
        chosen[place] = member
    return chosen


def behind_s(parts_s: Sequence[float], members: Sequence[str]) -> list[float]:
    """Return, for each part of a request, the seconds of those before it that go to the same member: how much later its
    turn there is (`policies.pools.turns.interleaved`). `parts_s`: seconds that each takes; `members`: who has it."""
    ahead: dict[str, float] = {}
    found = []
    for seconds, member in zip(parts_s, members, strict=True):
        found.append(ahead.get(member, 0.0))
        ahead[member] = found[-1] + seconds
    return found
