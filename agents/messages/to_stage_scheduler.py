"""What an instance's scheduler receives from its stage workers."""

from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import MAX_RUNS, BusySeconds, Count, Name, Port, Position, Seconds, State, Text, TokenId
from agents.messages.to_gateway import Failure, TokenLogprobs
from agents.messages.to_stage import MAX_PARTS


class StageLoaded(Struct, frozen=True, array_like=True, tag="stage_loaded"):
    """First message of a worker: what it holds. Answered by `Connect` once all nodes are there."""

    first_layer: Position
    layers: Position
    model_layers: Position
    hidden_size: Position
    dtype: Name
    """Of activations."""
    vocab_size: Count
    max_context_tokens: Count
    """0: the model does not say."""
    block_tokens: Position
    kv_blocks: Count
    kv_heads: Position
    head_dim: Position
    loaded_bytes: Count
    """Read of the checkpoint, as stored."""
    load_s: Seconds
    """From the first byte to ready for a step."""
    device: Name
    """The kind of it that rows are on: `cpu` or `cuda`."""
    worker: Annotated[int, Meta(ge=0, lt=MAX_PARTS * MAX_PARTS)] = 0
    """Which of its node's workers it is: replica by replica, and of each part by part."""
    streams_kv: bool = False
    """It may be told to send KV cache that is still to be computed; not one of the previous version."""
    rendezvous: tuple[Name, Port] | None = None
    """Host and port of the one that it keeps, which is used of an instance's first worker. None: it is not its node's
    first worker, or of the previous version."""
    obeys_rules: bool = False
    """Its engine chooses tokens by `Sampling.rules`; one of the previous version would ignore them."""
    obeys_grammars: bool = False
    """The rules may have a grammar, or it chooses no tokens at all."""
    shares_kv: bool = False
    """Runs may begin with KV blocks of others, and leave some that are kept; not with one of the previous version."""
    pools: bool = False
    """Its engine hands out hidden states, of which it makes those of prompts, or it is of no last stage."""
    takes_rows: bool = False
    """Runs may come with rows of other components, and it can take those that it needs; not with one of the previous
    version."""
    position_axes: Annotated[int, Meta(ge=1, le=3)] = 1
    """Positions of a token: 3 where images and videos are placed by frame, row and column."""
    attended_rows: Position = 0
    """Of an encoder, that every run attends to; 0: the model attends to none."""
    verifies_drafts: bool = False
    """Steps may bring drafts; not to one of the previous version, which would take them for known tokens."""


class StageConnected(Struct, frozen=True, array_like=True, tag="stage_connected"):
    """All edges are there: steps may come."""


class RunSample(Struct, frozen=True, array_like=True):
    run: Count
    token: TokenId
    logprobs: TokenLogprobs | None = None


class RunState(Struct, frozen=True, array_like=True):
    run: Count
    state: State


class StageSampled(Struct, frozen=True, array_like=True, tag="stage_sampled"):
    """From each worker that ends the model, for each of its steps, in order, also where nothing was to be sampled. Of a
    run with a draft, several samples may follow each other: one for each token of it that was right, and one more."""

    step: Count
    samples: Annotated[tuple[RunSample, ...], Meta(max_length=MAX_RUNS)]
    states: Annotated[tuple[RunState, ...], Meta(max_length=MAX_RUNS)] = ()
    """Of prompts that the step ended, where they were wanted."""


class StageFailed(Struct, frozen=True, array_like=True, tag="stage_failed"):
    """The worker cannot go on: a neighbour is lost, or its engine failed."""

    reason: Text


class StageBusy(Struct, frozen=True, array_like=True, tag="stage_busy"):
    """At each heartbeat: how long the engine has spent in steps so far."""

    busy_s: BusySeconds


class KvArrived(Struct, frozen=True, array_like=True, tag="kv_arrived"):
    """Everything of a reserved run is here: steps may come."""

    run: Count
    moved_bytes: Count
    """That came over links for it; more than its size only where a link broke and sent something again."""


class RowsHere(Struct, frozen=True, array_like=True, tag="rows_here"):
    """All that was to be taken of other components for a run is here."""

    run: Count


class RowsMissing(Struct, frozen=True, array_like=True, tag="rows_missing"):
    """Some of it is not to be had, or is not what it should be: the run will not be computed."""

    run: Count
    failure: Failure
    reason: Text


class KvLinkBroken(Struct, frozen=True, array_like=True, tag="kv_link_broken"):
    """From the sending end: what it has to send waits until the link is opened anew."""

    link: Name
    epoch: Count
    has_progressed: bool
    """Something was acknowledged since it was opened."""
    reason: Text


ToStageScheduler = (
    StageLoaded
    | StageConnected
    | StageSampled
    | StageFailed
    | StageBusy
    | KvArrived
    | KvLinkBroken
    | RowsHere
    | RowsMissing
)
