"""Dispatch in the order of slack with late binding (`slack-v1`).

The requests of a model wait in one queue, ordered by the latest moment at which the fastest member could begin their
prompt and still keep their time to first token. A request is bound to a member only when that member has a place for
it: it can begin now. Of the members with a place that keep the objective of this request, the one whose time is
cheapest takes it, so that long prompts leave slow members to short ones, and fast members stay free for those that need
them. A request that no member can keep any more goes behind all that can be kept, and so does one that has waited for
most of its slack: where all that wait are about to be late, each is begun at its last moment, steps take no second
prompt, and the queue never gets shorter again.

The functions work on records in arrays and on numbers alone: the gateway and the simulator compile the same ones.
"""

from collections.abc import Iterable

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from policies.lanes import joins
from policies.routing_table import PromptTimes
from policies.rows import Rows

Floats = NDArray[np.float64]
_fits = register_jitable(joins)
"""As schedulers put prompts into a step."""

PROMPT_POINTS = np.concatenate(([0.0], 2.0 ** np.arange(4.0, 18.5, 0.5)))
"""(30,) prompt tokens at which a member's times are known; on straight lines between them, and beyond."""
_NO_TIME = PromptTimes((0.0,) * len(PROMPT_POINTS), (0.0,) * len(PROMPT_POINTS), 0)
Fields = tuple[float, ...]
PATIENCE = 0.75
"""Share of its slack that a request waits before it goes behind those that have not waited for as much of theirs."""
SCAN = 48
"""Requests at the head of the queue among which one is looked for that a free member can keep."""


class Member:
    """Who may take the first leg of a request."""

    is_open: bool
    has_place: bool
    """It could begin a prompt now, but for what is predicted in `free_s`."""
    tokens_free: float
    """Room for prompt tokens in its KV cache."""
    free_s: float
    """When it will have begun all that it was given."""
    end_s: float
    """When it will be through with all of that."""
    usd_per_s: float
    times: int
    """Row in the table of times."""
    chunk: float
    """Prompt tokens of one step, up to which prompts are put together."""
    step_s: float
    """When the step begins that was given out last."""
    step_tokens: float
    step_squares: float
    """Sum of the squares of the lengths of the prompts in it."""
    step_deadline_s: float
    """The first of the deadlines in it."""
    before_s: float
    """When it is through with the steps before that one."""
    latency_square_s: float
    busy_square_s: float
    """Seconds for each square token, as `policies.routing_table.PromptTimes` has both."""
    pace: float
    """Times of its prompts as they were observed, over those of the table."""


class Waiting:
    """A request in the queue."""

    tokens: float
    """Of its prompt, and of the answer that is made already."""
    deadline_s: float
    latest_s: float
    """When the fastest member has to begin at the latest."""
    aside_s: float
    """When it has waited for as much of its slack as it may ahead of others: `aside_s` of this module."""
    order_s: float
    """The same, and later for whoever has more waiting than others: the queue is in this order."""
    is_late: bool
    previous: int
    next: int


class Queue:
    """Ends of two lists through rows of `Waiting`, -1 where one is empty: of those that can be kept, and of those that
    are late or nearly so, both by `order_s`."""

    head: int
    tail: int
    late_head: int
    late_tail: int


def member_row(
    times: PromptTimes | None, rows: dict[PromptTimes, int], usd_per_hour: float, tokens_free: float
) -> Fields:
    """Fields of a member that is closed so far. `times`: None, not known, is taken to be nothing. `rows`: those of the
    table of times, to which a new one is added."""
    known = times or _NO_TIME
    row = rows.setdefault(known, len(rows))
    squares = known.latency_s_per_square, known.busy_s_per_square
    of_step = -np.inf, 0.0, 0.0, np.inf, 0.0
    return False, False, tokens_free, 0.0, 0.0, usd_per_hour / 3600, row, known.chunk_tokens, *of_step, *squares, 1.0


def table_of_times(times: Iterable[PromptTimes]) -> tuple[Floats, Floats]:
    """(times, PROMPT_POINTS) seconds: `latency_s` and `busy_s` of `choose`."""
    known = list(times)
    latency_s, busy_s = (
        np.array(values).reshape(-1, len(PROMPT_POINTS))
        for values in ([each.latency_s for each in known], [each.busy_s for each in known])
    )
    return latency_s, busy_s


@register_jitable
def seconds(times: Floats, tokens: float) -> float:
    """Interpolate: `times` (PROMPT_POINTS,) seconds at PROMPT_POINTS."""
    last = len(times) - 1
    at = 0 if tokens <= 16.0 else min(int(2.0 * (np.log2(tokens) - 4.0)) + 1, last - 1)
    low = PROMPT_POINTS[at]
    return float(times[at] + (times[at + 1] - times[at]) * (tokens - low) / (PROMPT_POINTS[at + 1] - low))


@register_jitable
def fastest_s(members: Rows[Member], first: int, end: int, latency_s: Floats, tokens: float) -> float:
    """Time of a prompt on the fastest of the members [first, end) that are open; infinite where none is."""
    best = np.inf
    for at in range(first, end):
        if members[at].is_open:
            best = min(best, _paced_s(members[at], latency_s, tokens))
    return best


@register_jitable
def aside_s(asked_s: float, latest_s: float) -> float:
    """When a request goes behind others that has to begin by `latest_s`."""
    return asked_s + PATIENCE * (latest_s - asked_s) if asked_s < latest_s < np.inf else latest_s


@register_jitable
def together_s(members: Rows[Member], first: int, end: int, busy_s: Floats, tokens: float) -> float:
    """Time in which the members [first, end) that are open compute as much as such a prompt, all together."""
    rate = 0.0
    for at in range(first, end):
        if members[at].is_open:
            rate += 1.0 / max(_paced_s(members[at], busy_s, tokens), 1e-9)
    return 1.0 / rate if rate > 0.0 else 0.0


@register_jitable
def _paced_s(member: Member, times: Floats, tokens: float) -> float:
    return member.pace * seconds(times[member.times], tokens)


@register_jitable
def _busy_s(member: Member, busy_s: Floats, tokens: float, squares: float) -> float:
    """Time of a step of so many tokens until the next can begin. `squares`: sum of the squares of its prompts' lengths,
    which is less than that of one prompt where there are several."""
    return _paced_s(member, busy_s, tokens) - member.pace * member.busy_square_s * (tokens * tokens - squares)


@register_jitable
def _end_s(
    member: Member, latency_s: Floats, busy_s: Floats, tokens: float, squares: float, start_s: float, before_s: float
) -> float:
    """When such a step is through that begins at `start_s`, behind others that are through at `before_s`: where a
    member has several parts, a short step does not overtake a long one."""
    own_s = _paced_s(member, latency_s, tokens) - member.pace * member.latency_square_s * (tokens * tokens - squares)
    return max(start_s + own_s, before_s + min(own_s, _busy_s(member, busy_s, tokens, squares)))


@register_jitable
def insert(waiting: Rows[Waiting], queue: Queue, row: int) -> None:
    """Put a request into the queue by its `order_s`, behind its equals."""
    waiting[row].is_late = False
    _insert(waiting, queue, row, queue.head, queue.tail)


@register_jitable
def _insert(waiting: Rows[Waiting], queue: Queue, row: int, head: int, tail: int) -> None:
    """Put a row into the list with these ends."""
    before, is_late = tail, waiting[row].is_late
    while before >= 0 and waiting[before].order_s > waiting[row].order_s:
        before = waiting[before].previous
    after = head if before < 0 else waiting[before].next
    waiting[row].previous = before
    waiting[row].next = after
    if before >= 0:
        waiting[before].next = row
    elif is_late:
        queue.late_head = row
    else:
        queue.head = row
    if after >= 0:
        waiting[after].previous = row
    elif is_late:
        queue.late_tail = row
    else:
        queue.tail = row


@register_jitable
def remove(waiting: Rows[Waiting], queue: Queue, row: int) -> None:
    """Take a request out of whichever of the two lists it is in."""
    before, after, is_late = waiting[row].previous, waiting[row].next, waiting[row].is_late
    if before >= 0:
        waiting[before].next = after
    elif is_late:
        queue.late_head = after
    else:
        queue.head = after
    if after >= 0:
        waiting[after].previous = before
    elif is_late:
        queue.late_tail = before
    else:
        queue.tail = before


@register_jitable
def _set_late_aside(waiting: Rows[Waiting], queue: Queue, row: int) -> None:
    """Move a request that no member can keep any more, or hardly, to the late list."""
    remove(waiting, queue, row)
    waiting[row].is_late = True
    _insert(waiting, queue, row, queue.late_head, queue.late_tail)


@register_jitable
def take(member: Member, latency_s: Floats, busy_s: Floats, tokens: float, deadline_s: float, now_s: float) -> None:
    """Count a prompt that a member was given, as `choose` reckoned with it."""
    if _joins(member, tokens, now_s):
        total, squares = member.step_tokens + tokens, member.step_squares + tokens * tokens
        earlier_s = _busy_s(member, busy_s, member.step_tokens, member.step_squares)
        first_s = min(member.step_deadline_s, deadline_s)
    else:
        total, squares, earlier_s, first_s = tokens, tokens * tokens, 0.0, deadline_s
        member.step_s = member.free_s = max(now_s, member.free_s)
        member.before_s = member.end_s
    member.free_s += _busy_s(member, busy_s, total, squares) - earlier_s
    member.end_s = _end_s(member, latency_s, busy_s, total, squares, member.step_s, member.before_s)
    member.step_tokens, member.step_squares, member.step_deadline_s = total, squares, first_s
    member.tokens_free -= tokens


@register_jitable
def _joins(member: Member, tokens: float, now_s: float) -> bool:
    """Whether a prompt may go in one step with those that the member was given at this moment."""
    return member.step_s >= now_s and _fits(tokens, member.step_tokens, member.chunk)


@register_jitable
def choose(
    members: Rows[Member],
    first: int,
    end: int,
    latency_s: Floats,
    busy_s: Floats,
    tokens: float,
    deadline_s: float,
    now_s: float,
    lead_s: float,
) -> int:
    """Choose among the members [first, end): of those that can begin the prompt within `lead_s` and keep its deadline
    the cheapest for it, the soonest of equals; -1 where there is none.

    `latency_s`, `busy_s`: (times, PROMPT_POINTS) seconds from the start of a prompt to its first token, and until the
    member can begin another."""
    best, least_usd, soonest_s = -1, np.inf, np.inf
    for at in range(first, end):
        member = members[at]
        if not member.is_open or member.tokens_free < tokens:
            continue
        if _joins(member, tokens, now_s):
            total, squares = member.step_tokens + tokens, member.step_squares + tokens * tokens
            end_s = _end_s(member, latency_s, busy_s, total, squares, member.step_s, member.before_s)
            if end_s > member.step_deadline_s:
                continue
            busy = _busy_s(member, busy_s, total, squares)
            busy -= _busy_s(member, busy_s, member.step_tokens, member.step_squares)
        elif member.has_place and member.free_s - now_s <= lead_s:
            start_s, squares = max(now_s, member.free_s), tokens * tokens
            end_s = _end_s(member, latency_s, busy_s, tokens, squares, start_s, member.end_s)
            busy = _paced_s(member, busy_s, tokens)
        else:
            continue
        usd = busy * member.usd_per_s
        if end_s <= deadline_s and (usd < least_usd or (usd == least_usd and end_s < soonest_s)):
            best, least_usd, soonest_s = at, usd, end_s
    return best


@register_jitable
def next_binding(
    members: Rows[Member],
    first: int,
    end: int,
    latency_s: Floats,
    busy_s: Floats,
    waiting: Rows[Waiting],
    queue: Queue,
    now_s: float,
    lead_s: float,
) -> tuple[int, int]:
    """Find a request and the member that is to have it now; (-1, -1) where nothing is to be bound.

    Late ones are taken, in their order, when nothing else wants a free member; the first of them waits for one that
    keeps it as long as there is any."""
    row, looked = queue.head, 0
    while row >= 0 and looked < SCAN:
        own = waiting[row]
        after = own.next
        if own.aside_s < now_s:
            _set_late_aside(waiting, queue, row)
        else:
            looked += 1
            found = choose(members, first, end, latency_s, busy_s, own.tokens, own.deadline_s, now_s, lead_s)
            if found >= 0:
                return row, found
        row = after
    if queue.late_head >= 0:
        own = waiting[queue.late_head]
        deadline_s = own.deadline_s if own.latest_s >= now_s else np.inf
        found = choose(members, first, end, latency_s, busy_s, own.tokens, deadline_s, now_s, lead_s)
        if found >= 0:
            return queue.late_head, found
    return -1, -1


@register_jitable
def next_look_s(members: Rows[Member], first: int, end: int, now_s: float, lead_s: float) -> float:
    """When a member is predicted to have a place next, after `now_s`; infinite where none is busy."""
    soonest_s = np.inf
    for at in range(first, end):
        member = members[at]
        if member.is_open and member.free_s - lead_s > now_s:
            soonest_s = min(soonest_s, member.free_s - lead_s)
    return soonest_s
