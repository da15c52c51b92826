"""What a row of each of the kernel's arrays of pipelines is."""


class Sequence:
    """What the scheduler of a pipeline knows of a leg, in the row of the leg."""

    run: int
    """0: not admitted."""
    peer: int
    """Row of the leg that hands over to this one, or takes over; -1: none."""
    blocks: int
    position: int
    """Tokens in the KV cache."""
    tokens: int
    """Prompt and output so far."""
    most: int
    """Tokens in the cache when its last one is sampled."""
    sampled: bool
    end: int
    """Tokens when its output is whole."""
    flight: int
    """Step that it takes part in; 0: none."""
    count: int
    """Its tokens in that."""
    unsent: int
    """Stages of the leg that hands over to it whose part of the KV cache is not on its way yet."""
    there_s: float
    """When all that is on its way is there."""
    awaited: int
    """How much of what another leg hands over it waits for: all of the KV cache, and the first token where that is not
    known yet."""


class Chunk:
    """What a stage computes of a prompt in one step, while its KV cache is sent."""

    start_s: float
    end_s: float
    piece: int
    """Piece of the stage's part that cannot be sent before the next step, counted from 1; 0: none."""
    from_s: float
    """When that one could be sent but for that."""


class Pipeline:
    depth: int
    nodes: int
    stage_at: int
    """First of its depth + 1 rows in `stages`."""
    limit_at: int
    """First row in `limits`."""
    block_tokens: int
    kind_at: int
    """First row in `kinds`."""
    kinds: int
    hand_off_s: float
    kv_bytes: float


class Stage:
    node: int
    """First node of the stage."""
    layer: int


class Limit:
    """What a node may hold and how it computes."""

    batch_cap: int
    chunk: int
    blocks: int
    table: int
    weight: float
    hop_s: float
    hop_s_per_token: float
    quota_share: float
    period_s: float
    send_s_per_token: float
    """As `NodeModel`, of an instance that does prefill alone."""
    take_s_per_byte: float


class Table:
    """The scalars of a `StepTable`."""

    prompt_step_s: float
    prompt_token_s: float
    decode_step_s: float
    replicas: float
    parts: float
    busy_share: float


class Seat:
    """One node's part in one group."""

    members: int
    tokens: int
    """Tokens of prompts in lanes that are not computed yet."""
    prompts: int
    """How many these are."""


class Work:
    """Sums of a step over what a node does in it."""

    prompt_tokens: float
    prompt_context: float
    requests: float
    cached: float
    sampled: float
    start_s: float
    out_s: float


# Phases of a leg at a pipeline, beside those of every leg; as `agents.scheduler.sequence.Phase`.
OFFERED = 4
COMING = 5
HELD = 6

# What an event of a hand-off names: a run, a stage that sends, and a piece of its part.
STAGE_BITS = 6
PIECE_BITS = 5
ALL_STAGES = (1 << STAGE_BITS) - 1
"""In the place of a stage: all of them, of a prompt that is whole."""

# Roles of an instance
WHOLE = 0
PREFILL = 1
DECODE = 2
ROLES = {"prefill": PREFILL, "decode": DECODE}
"""Leg that an instance does alone → its role; all others do the whole."""

# Rows of the scratch
CHUNKS = 0
CHOSEN = 1
ORDER_OF_GROUPS = 2

BODY_ROWS = 0  # of `by_rows`: rows of the body, then of the head
HEAD_ROWS = 1
PROMPT_CONTEXT = 0  # of `by_context`
DECODE_CONTEXT = 1
