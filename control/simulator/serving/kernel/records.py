"""What a row of each of the kernel's arrays is. A row is one thing, so that what is used together lies together."""

from policies.rows import Small


class Links:
    """A row's neighbours in a list through rows; -1: none."""

    previous: int
    next: int


class Ends:
    """First and last row of such a list; -1: it is empty."""

    head: int
    tail: int


class Fate:
    """What became of a request: the columns of `Served`."""

    outcome: Small
    made: Small
    restarts: Small
    preemptions: Small
    queued_s: float
    first_s: float
    accepted_s: float
    handed_s: float
    finish_s: float


class Call:
    """A request from its admission to its end. Its legs are the rows from `call` times the most legs of a route on."""

    request: int
    """-1: the row is free."""
    route: int
    open: int
    """Legs that are not done."""
    attempt: int
    """Rises with every attempt of any call."""
    is_parked: bool
    until_s: float
    """Until when it may be parked; NaN: it is not."""
    is_waiting: bool
    """In the queue of its app, which has the row of the call in `waiting`: it is bound to no instance yet."""
    is_excused: bool
    """As in `policies.queue_parts.Waiting`."""


class CallLeg:
    """One leg of a call at one instance."""

    phase: int
    instance: int
    arrival: int
    """Rises with every leg that an instance takes."""
    group: int
    """Group in which it is served; -1: it is not yet."""
    missing: int
    """Inputs that have not arrived."""
    unsent: int
    """Outputs that are on their way."""


class RouteLeg:
    work_class: int
    units: float
    """Units per request."""
    edge_at: int
    """First row in `edges` of those that begin here."""
    edges: int
    server_at: int
    """First row in `servers`."""
    servers: int


class Edge:
    target: int
    """Leg of the route."""
    size: float
    """Bytes per request."""


class Instance:
    model: int
    """Row of what it runs: in `stations` where it serves batches, else in the table of `autoregressive.records`."""
    serves_batches: bool
    role: int
    """Which part of a text it makes: see `autoregressive.records`."""
    alive: bool
    is_due: bool
    """An order is on the heap."""
    node_at: int
    """First row in `nodes`."""
    group_at: int
    groups: int
    seat_at: int
    """First row in `seats`: groups x nodes."""
    held: int
    """Legs that it knows of."""
    running: int
    arrivals: int
    room: int
    """Room for requests, as gateways know it: `policies.room`."""
    kv_most: float
    """As in `policies.later_legs`; as of the last request that it might have had."""
    use_at: int
    """First place in `use_s`."""
    use_first: int
    """Number of its first interval."""
    uses: int
    app_at: int
    """First place in `instance_apps`."""
    apps: int


class Group:
    """Legs that are served together: requests that take steps together, or a lane that serves batches."""

    instance: int
    size: int
    flight: int
    """Step that is under way; 0: none."""
    tokens: int
    """Tokens of prompts in it that are not computed yet."""


class Node:
    """One node of an instance, and when each of its parts is free again."""

    compute_s: float
    """Its first part."""
    last_s: float
    """Its last part: the same where it has one."""
    out_s: float
    in_s: float
    bytes_per_s: float
    """Rate of its network, in one direction."""
    period: int
    """Period of its quota in which it computed last."""
    spent_s: float
    """Processor time in that."""
    links_s: float
    """What its next step takes longer for KV caches that came while it computed."""
    free_blocks: int
    pending: int
    """Prompt tokens in lanes that are not computed yet."""


class Station:
    """Serves batches: see `BatchModel`."""

    batch_s: float
    start_s: float
    lanes: int
    facet_at: int
    """First row in `facets`."""
    facets: int
    nodes: int


class App:
    known: bool
    """The routing table has it."""
    context: int
    parked: int
    """Number of calls."""
    wakes: int
    """How many of them are to be tried again."""
    filled: bool
    """Whether its gateways are to look which instances are full."""
    charge_at: int
    """First row in `charges`: a row for each work class that its requests are charged."""
    charges: int
    by_slack: bool
    """Its requests wait in one queue (`policies.slack`); else its router says where each goes."""
    member_at: int
    """First row in `members`."""
    members: int
    look_s: float
    """When it is looked next whether a member has a place; infinite: it need not be."""
    ttft_s: float
    """Objective for the time to first token, and the next: more for each token of the prompt."""
    ttft_s_per_token: float
    mean_output: float
    """Tokens of an answer, as admission expects them."""


class Charge:
    """A `WorkRule` of an app."""

    work_class: int
    per_request: float
    per_prompt_token: float
    per_output_token: float
    units_per_s: float


class Picked:
    """Choices of an app's router for its next calls."""

    taken: int
    made: int
    """-1: nothing is open."""


class Event:
    at_s: float
    key: int
    """Priority and the id of what it happens to in one."""
    first: int
    second: int


class State:
    """State of the whole simulation: one row."""

    now_s: float
    request: int
    """The next one to come."""
    pending: int
    """Call to be dispatched; -1: none."""
    lost: int
    """Instance whose calls go on elsewhere; -1: none."""
    waking: int
    """Apps whose parked calls are tried again."""
    refreshed: bool
    """Whether it is to be looked at once whether calls of apps that wait can be bound."""
    filled: bool
    """Whether an instance is full now, or is not any more."""
    events: int
    """On the heap."""
    runs: int
    steps: int
    attempts: int
    free: int
    """First free call."""
    open: int
    """Number of calls."""


# Phases of a leg; those of text go on in `autoregressive.records`.
ABSENT = 0  # the row is free
AWAITING = 1  # for its inputs
READY = 2  # in the queue, or being served
SENDING = 3  # done, and its outputs are on their way

UNFINISHED = 0
SERVED = 1
REFUSED = 2
LOST = 3
REFUSED_LATE = 4

# Events, by what goes first at one time
STEP = 2
ARRIVED = 3  # a KV cache, or the token behind it
INPUT = 4
STALE = 5
ORDER = 6
SEND = 7
LOOK = 8

# Why the kernel stops
REACHED = 0
DRY = 1  # a router's choices are needed for the pending call
ROOM = 2  # an instance is full now, or not any more
FULL = 3  # more room is needed in the arrays
