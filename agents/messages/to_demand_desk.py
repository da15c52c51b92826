"""What the control plane's demand desk receives from a gateway: load that it was offered, what came of late, and who
waits at it."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import Count, MaybeName, Name
from templates_lib.values.work import Unit

MAX_LINES = 20_000
"""Models times projects of one interval."""

MAX_KEYS = 10_000
"""Keys of one interval, over all its lines: what more of them used is counted with their project alone."""

UnixSeconds = Annotated[int, Meta(ge=0, lt=1 << 36)]
Few = Annotated[int, Meta(ge=0, lt=1 << 31)]


class OfferedWork(Struct, frozen=True, array_like=True):
    """Units of one work class; `refused` of those that were offered."""

    work_class: MaybeName
    """Empty: the requests themselves."""
    unit: Unit
    offered: Count
    refused: Count
    served: Count


class ServedKey(Struct, frozen=True, array_like=True):
    """What one key of a line's project was served, of what the line counts."""

    key: Name
    """Public part of the token."""
    requests: Count
    units: Annotated[tuple[Count, ...], Meta(max_length=64)]
    """By work class, in the order of the line's `work`."""


class OfferedLine(Struct, frozen=True, array_like=True):
    """Of one kind of request in one interval, counted when it came, whatever became of it."""

    fleet: MaybeName
    app: Name
    request_type: Name
    project: MaybeName
    """Of the key; empty where the gateway is open."""
    requests: Count
    refused: Count
    """Of them, for want of capacity."""
    prompt_tokens: Count
    output_tokens: Count
    """As many as were made; estimated where that is not known (yet, or ever)."""
    served_requests: Count
    served_prompt_tokens: Count
    served_output_tokens: Count
    work: Annotated[tuple[OfferedWork, ...], Meta(max_length=64)] = ()
    """The same in units of all work classes. A gateway of the release before leaves it out, whose tokens are those of
    text; a control plane of the release before reads them alone."""
    keys: Annotated[tuple[ServedKey, ...], Meta(max_length=MAX_KEYS)] = ()
    """Those that were served anything. A gateway of the release before leaves them out, and a control plane of the
    release before does not read them."""


class Offered(Struct, frozen=True, array_like=True, tag="offered"):
    """All of one interval. Sent until it is stored, and again when more becomes known: the highest revision counts."""

    life: Name
    """Of the gateway's process: what it counts begins anew with it."""
    started_s: UnixSeconds
    """By its clock, a multiple of the interval's length."""
    seconds: Annotated[int, Meta(ge=1, le=3600)]
    revision: Count
    lines: Annotated[tuple[OfferedLine, ...], Meta(max_length=MAX_LINES)]


class WaitingLine(Struct, frozen=True, array_like=True):
    fleet: MaybeName
    app: Name
    requests: Few


class Waiting(Struct, frozen=True, array_like=True, tag="waiting"):
    """Requests that are held because nothing serves their model; all of this gateway, each time."""

    lines: Annotated[tuple[WaitingLine, ...], Meta(max_length=MAX_LINES)]


class RecentWork(Struct, frozen=True, array_like=True):
    """Units of one work class."""

    work_class: Name
    unit: Unit
    units: Count


class RecentLine(Struct, frozen=True, array_like=True):
    """Of one model: what came in the last seconds, whatever became of it, and answers of the last minute."""

    fleet: MaybeName
    app: Name
    requests: Count
    work: Annotated[tuple[RecentWork, ...], Meta(max_length=64)]
    judged: Count
    """Answers that have an objective."""
    in_time: Count
    """Of these, those that kept all that they have."""


class Recent(Struct, frozen=True, array_like=True, tag="recent"):
    """All of this gateway's process, each time; nobody keeps it, and what is lost is told again. What it counts is in
    `Offered` too, once its interval is over."""

    seconds: Annotated[float, Meta(ge=1, le=60)]
    """That `requests` and `work` came in. Of less no rate can be told."""
    lines: Annotated[tuple[RecentLine, ...], Meta(max_length=MAX_LINES)]


RECENT_PROTOCOL = 6
"""Oldest protocol of a desk that reads `Recent`."""

ToDemandDesk = Offered | Waiting | Recent
