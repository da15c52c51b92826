"""What a gateway receives from an instance's scheduler."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import (
    MAX_RUNS,
    MAX_TOP_LOGPROBS,
    Attempt,
    BusySeconds,
    Count,
    Endpoint,
    Name,
    Position,
    State,
    Text,
    TokenId,
    TokenIds,
)
from agents.messages.component_work import Encoded, Made

Alternatives = Annotated[tuple[tuple[TokenId, float], ...], Meta(max_length=MAX_TOP_LOGPROBS)]


class TokenLogprobs(Struct, frozen=True, array_like=True):
    """Natural log-probabilities at one position."""

    chosen: float
    top: Alternatives
    """(token, log-probability), likeliest first."""


class TokenRun(Struct, frozen=True, array_like=True):
    """Consecutive output tokens of one attempt."""

    attempt: Attempt
    seq: Position
    """Index in the whole output (resumed tokens counted) of `ids[0]`: whoever receives sees repeats and gaps."""
    ids: TokenIds
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One for each of `ids` where they were asked for."""


class Tokens(Struct, frozen=True, array_like=True, tag="tokens"):
    """What one step of the engine made, of all requests of this gateway: one message a step, not one a token."""

    runs: Annotated[tuple[TokenRun, ...], Meta(max_length=MAX_RUNS)]


class FinishReason(StrEnum):
    STOP = "stop"
    """A stop token came."""
    LENGTH = "length"
    """`max_tokens`, or the end of the context."""
    HANDED_OFF = "handed_off"
    """The leg is done, which is reported once the next leg has the whole KV cache: its instance may go."""


class Finished(Struct, frozen=True, array_like=True, tag="finished"):
    attempt: Attempt
    reason: FinishReason
    output_tokens: Position
    """Length of the whole output so far: whoever received fewer has lost some."""
    cached_prompt_tokens: Position = 0
    """Of the prompt, found in a prefix cache."""
    state: State = b""
    """Of the prompt, where it was wanted."""


class Failure(StrEnum):
    """Why an attempt ended without a result. `is_retryable` is the next step."""

    OVERLOADED = "overloaded"
    DRAINING = "draining"
    ENGINE = "engine"
    """A stage died, hung or ran out of memory: the instance may be on its way out."""
    HAND_OFF = "hand_off"
    """The KV cache, or rows of another component, did not arrive: these are to be made again, too."""
    UNKNOWN_MODEL = "unknown_model"
    """The instance does not hold it: the routing table is ahead or behind."""
    DEADLINE = "deadline"
    TOO_LONG = "too_long"
    """The prompt does not fit this instance at all."""
    UNSUPPORTED = "unsupported"
    """A sampling parameter that the engine does not have."""

    @property
    def is_retryable(self) -> bool:
        """Another instance may well succeed."""
        return self not in {Failure.DEADLINE, Failure.TOO_LONG, Failure.UNSUPPORTED}


class Failed(Struct, frozen=True, array_like=True, tag="failed"):
    attempt: Attempt
    failure: Failure
    reason: Text


class SchedulerState(StrEnum):
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"


class Status(Struct, frozen=True, array_like=True, tag="status"):
    """Sent after a welcome, on request, on every change of state, at each heartbeat, and when there is room again."""

    state: SchedulerState
    running: Count
    waiting: Count
    kv_blocks: Count
    kv_blocks_free: Count
    hand_off: Endpoint | None = None
    """Where its scheduler takes part in hand-offs of KV cache; None: it does whole requests only."""
    room: Count | None = None
    """Requests that it would take now; None: it does not say, as one of the previous version."""
    places: Count | None = None
    """Of them, prompts that this gateway may send to be begun at once; None: one of the previous version, as above."""
    is_shared: bool = False
    """Other gateways use its places too: who needs more asks for them."""
    obeys_rules: bool = False
    """Requests may come with `Sampling.rules`; not to one of the previous version, which would ignore them."""
    obeys_grammars: bool = False
    """Rules may have a grammar: its model's tokens are known there as text."""
    takes_rows: Count = 0
    """How often each tensor of `Generate.given` is taken there, by nodes and by processes of the node where it lies;
    0: requests may come with none."""
    pools: bool = False
    """Requests may have `pooling`."""
    others_units: Count | None = None
    """Work of other gateways than this that is not done yet: rows that units become (`Encode.rows`), and tokens of
    prompts; None: one of the previous version, or whoever is told is no gateway."""
    prompt_tokens_free: Count | None = None
    """Tokens of one more prompt that it has KV cache for; None: it does not say, as one of the previous version."""


class NodeStats(Struct, frozen=True, array_like=True):
    node: Name
    busy_s: BusySeconds
    """That its engine spent in steps."""
    loaded_bytes: Count = 0
    """Read of the checkpoint, as stored."""
    load_s: BusySeconds = 0.0


class WorkDone(Struct, frozen=True, array_like=True):
    """Since the scheduler's start; what an engine does not say is 0."""

    prompt_tokens: Count = 0
    """Computed, tokens of resumed and preempted requests each time anew."""
    preemptions: Count = 0
    sent_kv_bytes: Count = 0
    """Handed off and taken."""
    received_kv_bytes: Count = 0
    nodes: tuple[NodeStats, ...] = ()
    looked_up_tokens: Count = 0
    """Of requests that could have begun with KV cache of others: each time that one was admitted."""
    found_tokens: Count = 0
    """Of them, tokens whose KV cache was there, and was not computed."""
    draft_tokens: Count = 0
    """Of answers, drafted and verified."""
    accepted_tokens: Count = 0
    """Of them, those that were right."""


class Stats(Struct, frozen=True, array_like=True, tag="stats"):
    """What a scheduler counts, for metrics."""

    status: Status
    generated_tokens: Count
    """Sent to gateways."""
    finished: dict[FinishReason, Count]
    failed: dict[Failure, Count]
    """By why; a request that is resumed elsewhere counts there too."""
    done: WorkDone


ToGateway = Tokens | Finished | Failed | Status | Stats | Encoded | Made
