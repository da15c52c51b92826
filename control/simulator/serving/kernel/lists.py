"""Lists through rows: legs that wait, are in a group or at an instance, calls that are open or parked."""

from control.simulator.serving.kernel.compiled import compiled
from control.simulator.serving.kernel.records import Ends, Links
from control.simulator.serving.kernel.world import World
from policies.rows import Rows


@compiled
def append(links: Rows[Links], ends: Ends, row: int) -> None:
    """Add the row behind all others."""
    last = ends.tail
    links[row].previous = last
    links[row].next = -1
    if last < 0:
        ends.head = row
    else:
        links[last].next = row
    ends.tail = row


@compiled
def unlink(links: Rows[Links], ends: Ends, row: int) -> None:
    """Take the row out; its own links stay as they were."""
    before, after = links[row].previous, links[row].next
    if before < 0:
        ends.head = after
    else:
        links[before].next = after
    if after < 0:
        ends.tail = before
    else:
        links[after].previous = before


@compiled
def enqueue(w: World, ends: Ends, row: int) -> None:
    """Put a leg into its instance's queue, or a group, by arrival: mostly last, or else first."""
    links, arrival = w.queue_links, w.legs[row].arrival
    before, first = ends.tail, ends.head
    if first >= 0 and w.legs[first].arrival > arrival:
        before = -1
    while before >= 0 and w.legs[before].arrival > arrival:
        before = links[before].previous
    after = first if before < 0 else links[before].next
    links[row].previous = before
    links[row].next = after
    if before < 0:
        ends.head = row
    else:
        links[before].next = row
    if after < 0:
        ends.tail = row
    else:
        links[after].previous = row


@compiled
def dequeue(w: World, ends: Ends, row: int) -> None:
    """Take a leg out of such a queue or group."""
    unlink(w.queue_links, ends, row)


@compiled
def hold(w: World, row: int) -> None:
    """Have its instance know of the leg from now on."""
    instance = w.legs[row].instance
    append(w.held_links, w.held_ends[instance], row)
    w.instances[instance].held += 1


@compiled
def leave_instance(w: World, row: int) -> None:
    instance = w.legs[row].instance
    unlink(w.held_links, w.held_ends[instance], row)
    w.instances[instance].held -= 1
