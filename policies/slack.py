"""Dispatch by slack with late binding (`slack-v1`).

The requests of a model wait in one queue, the earliest deadline of a first token first. A request is bound to a member
only when that member has a place for it: it can begin now. Of the members with a place that keep the objective of this
request, the one whose time is cheapest takes it, so that long prompts leave slow members to short ones, and fast
members stay free for those that need them; what the answer costs is counted where that depends on who takes the prompt
(`policies.answer_cost`), so that aggregated members take the answers that are cheaper there. Slack is the time until
the fastest member has to begin a prompt for its deadline to be kept. A request without any goes behind all that can be
kept, and so does one that has waited for most of its slack: where all that wait are about to be late, each is begun at
its last moment, steps take no second prompt, and the queue never gets shorter again. Where the objective says so
(`Slo.refuses_late`), what no member can keep any more is refused instead.

The queue is not in the order of slack: then long prompts overtake short ones that have waited longer, and when more
comes than members can do, several short ones are late for each long one that is not. With deadlines, pools carry as
much in time or more, up to 13 % (`bench.dispatch_pools`).

A queue has a part for each priority (`policies.priority`), and all this is so within a part. The part of the highest is
looked at first, what is late in it included: deadlines order requests of one priority alone. So that lower ones do not
starve under a load of higher ones that never ends, a part in which somebody waits is passed over `MOST_PASSED` times in
a row, and then is first once.

The functions work on records in arrays and on numbers alone: the gateway and the simulator compile the same ones.
"""

from collections.abc import Iterable

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from policies.lanes import joins
from policies.queue_parts import PARTS, Queue, Waiting, holds_any, insert, set_late_aside
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
MOST_PASSED = 16
"""Requests of higher priorities that are bound before one of a lower one that waits."""
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
    answer_usd: float
    """Of each token of the answer: see `policies.answer_cost`."""
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


def member_row(
    times: PromptTimes | None,
    rows: dict[PromptTimes, int],
    usd_per_hour: float,
    tokens_free: float,
    answer_usd: float = 0.0,
) -> Fields:
    """Fields of a member that is closed so far. `times`: None, not known, is taken to be nothing. `rows`: those of the
    table of times, to which a new one is added."""
    known = times or _NO_TIME
    row = rows.setdefault(known, len(rows))
    squares = known.latency_s_per_square, known.busy_s_per_square
    of_step = -np.inf, 0.0, 0.0, np.inf, 0.0
    usd = usd_per_hour / 3600, answer_usd
    return False, False, tokens_free, 0.0, 0.0, *usd, row, known.chunk_tokens, *of_step, *squares, 1.0


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
def join(
    members: Rows[Member],
    first: int,
    end: int,
    latency_s: Floats,
    waiting: Rows[Waiting],
    queues: Rows[Queue],
    row: int,
    asked_s: float,
    behind_s: float,
    is_excused: bool,
) -> None:
    """Put a request into the queue whose part, tokens and deadline are in its row: `behind_s` behind the place of its
    deadline. Its slack follows from the members [first, end) that are open. `asked_s`: when its client began to
    wait."""
    own = waiting[row]
    own_s = fastest_s(members, first, end, latency_s, own.tokens)
    own.latest_s = own.deadline_s - (own_s if own_s < np.inf else 0.0)
    own.aside_s = aside_s(asked_s, own.latest_s)
    own.is_excused = is_excused or own_s == np.inf
    # Without an objective none is later than another.
    own.order_s = (asked_s if own.deadline_s == np.inf else own.deadline_s) + behind_s
    insert(waiting, queues[own.part], row)


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
    answer: float,
    deadline_s: float,
    now_s: float,
    lead_s: float,
) -> int:
    """Choose among the members [first, end): of those that can begin the prompt within `lead_s` and keep its deadline
    the cheapest for it, the soonest of equals; -1 where there is none. `answer`: tokens that are expected behind it.

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
        usd = busy * member.usd_per_s + answer * member.answer_usd
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
    queues: Rows[Queue],
    at: int,
    now_s: float,
    lead_s: float,
) -> tuple[int, int]:
    """Find a request and the member that is to have it now; (-1, -1) where nothing is to be bound. `at`: the first part
    of the queue."""
    overdue = -1
    for part in range(at + 1, at + PARTS):
        if queues[part].passed >= MOST_PASSED and holds_any(queues[part]):
            overdue = part
    for turn in range(at - 1, at + PARTS):
        part = overdue if turn < at else turn
        if part < at or not holds_any(queues[part]):
            continue
        row, found = _next_of_part(members, first, end, latency_s, busy_s, waiting, queues[part], now_s, lead_s)
        if row >= 0:
            queues[part].passed = 0
            for below in range(part + 1, at + PARTS):
                queues[below].passed = queues[below].passed + 1 if holds_any(queues[below]) else 0
            return row, found
    return -1, -1


@register_jitable
def _next_of_part(
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
    """Find a request of one part of the queue, as `next_binding` does.

    Late ones are taken, in their order, when nothing else wants a free member; the first of them waits for one that
    keeps it as long as there is any."""
    row, looked = queue.head, 0
    while row >= 0 and looked < SCAN:
        own = waiting[row]
        after = own.next
        if own.aside_s < now_s:
            set_late_aside(waiting, queue, row)
        else:
            looked += 1
            due_s = own.deadline_s
            found = choose(members, first, end, latency_s, busy_s, own.tokens, own.answer, due_s, now_s, lead_s)
            if found >= 0:
                return row, found
        row = after
    if queue.late_head >= 0:
        own = waiting[queue.late_head]
        deadline_s = own.deadline_s if own.latest_s >= now_s else np.inf
        found = choose(members, first, end, latency_s, busy_s, own.tokens, own.answer, deadline_s, now_s, lead_s)
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
