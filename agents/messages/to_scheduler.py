"""What an instance's scheduler receives from a gateway."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from agents.messages.bounds import (
    MAX_BIASES,
    MAX_GIVEN,
    MAX_GRAMMAR,
    MAX_PEERS,
    MAX_TOP_LOGPROBS,
    Attempt,
    Endpoint,
    FewTokenIds,
    MaybeName,
    MaybeTrace,
    Name,
    Position,
    PublicKey,
    Seconds,
    TokenId,
    TokenIds,
)
from agents.messages.component_work import Encode, Make, PromptRows
from templates_lib.values.work import Phase


class Leg(StrEnum):
    """Which part of generating text an instance does."""

    WHOLE = "whole"
    """All of it, or none: a leg of another kind."""
    PREFILL = "prefill"
    """Computes the prompt, samples one token, hands the KV cache and that token to the decode leg."""
    DECODE = "decode"
    """Waits for the KV cache of the prefill leg, then goes on behind its token."""


LEGS = {Phase.PREFILL: Leg.PREFILL, Phase.DECODE: Leg.DECODE, Phase.AGGREGATED: Leg.WHOLE}
"""Phase of a text model → the leg that does its work."""


class OtherLeg(Struct, frozen=True, array_like=True):
    """Who does another leg of a request. With it two instances meet that never heard of each other."""

    instance: Name
    endpoint: Endpoint
    """Where it takes part in hand-offs; the leg that gives dials the one that takes."""
    public_key: PublicKey
    hand_off: Name
    """The same for both legs, and known to nobody else: whoever names it may take part in it."""


OtherLegs = Annotated[tuple[OtherLeg, ...], Meta(max_length=MAX_PEERS)]


Penalty = Annotated[float, Meta(ge=-2, le=2)]
Bias = tuple[TokenId, Annotated[float, Meta(ge=-100, le=100)]]


class LogitRules(Struct, frozen=True, array_like=True):
    """Changes to the logits ahead of temperature and cuts: a function of the tokens so far, whoever made them.

    They mean what they do in vLLM, in its order: biases and withheld tokens, repetition, frequency, presence."""

    presence_penalty: Penalty = 0.0
    """Taken off the logit of every token that is in the output."""
    frequency_penalty: Penalty = 0.0
    """The same for each time that it is there."""
    repetition_penalty: Annotated[float, Meta(gt=0, le=100)] = 1.0
    """Divides the positive logit, and multiplies the negative one, of every token in prompt or output."""
    min_p: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Tokens less likely than this share of the likeliest one, after temperature, are not chosen."""
    bias: Annotated[tuple[Bias, ...], Meta(max_length=MAX_BIASES)] = ()
    """Added to the logits of tokens, each of which is named once."""
    withheld: FewTokenIds = ()
    """Tokens that are not chosen before `withheld_until`: those that would end the output too early."""
    withheld_until: Position = 0
    """Of prompt and output together."""
    grammar: Annotated[str, Meta(max_length=MAX_GRAMMAR)] = ""
    """That the output obeys, in llguidance's form of Lark; empty: any text. Not for a scheduler whose status does not
    say `obeys_grammars`."""
    grammar_ends: FewTokenIds = ()
    """Tokens that may come when the grammar is fulfilled."""

    @property
    def counts_tokens(self) -> bool:
        """Whether the output so far must be known."""
        return bool(self.presence_penalty or self.frequency_penalty or self.grammar) or self.counts_prompt

    @property
    def counts_prompt(self) -> bool:
        return self.repetition_penalty != 1


class Sampling(Struct, frozen=True, array_like=True):
    """How a token is chosen: a function of the logits, `seed`, the token's position and the tokens before it alone.

    So any other instance goes on with the same tokens.
    """

    temperature: Annotated[float, Meta(ge=0, le=100)]
    """0 is greedy."""
    top_p: Annotated[float, Meta(gt=0, le=1)]
    top_k: Annotated[int, Meta(ge=0, lt=1 << 24)]
    """0 is all."""
    seed: Annotated[int, Meta(ge=0, lt=1 << 62)]
    top_logprobs: Annotated[int, Meta(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    """Alternatives reported with each token; None reports no log-probabilities at all."""
    rules: LogitRules | None = None
    """None changes nothing. Not for a scheduler whose status does not say `obeys_rules`: the release before would read
    over them."""


class Pooling(StrEnum):
    """How one state is made of the hidden states of a prompt's tokens, behind the model's last norm."""

    LAST = "last"
    """That of the last token, which has attended to all."""
    MEAN = "mean"
    """Of all tokens, each as much."""


class Generate(Struct, frozen=True, array_like=True, tag="generate"):
    """Start, or resume, one request.

    The gateway has tokenised the prompt: only so can a request go on elsewhere behind exactly the tokens that its
    client has. Text, and so stop strings, are the gateway's matter; it cancels when one is found.
    """

    attempt: Attempt
    request: Name
    """The id that the client sees, for logs."""
    model: Name
    prompt: TokenIds
    generated: TokenIds
    """Output tokens the client has already: to be prefilled behind the prompt, never sent again."""
    max_tokens: Position
    """Length limit of the whole output, `generated` included."""
    stop_ids: FewTokenIds
    """Tokens that end the output; the one that does is not sent."""
    sampling: Sampling
    deadline_s: Seconds
    """From receipt: clocks of two machines differ, spans do not."""
    leg: Leg = Leg.WHOLE
    peer: OtherLeg | None = None
    """None where one instance does the whole."""
    trace: MaybeTrace = ""
    """By which the request is followed from its client to the engine."""
    work_class: MaybeName = ""
    """Class of the leg, for a member that serves several; empty: the gateway is of the release before."""
    receives_from: OtherLegs = ()
    """Legs whose results this one needs, beside the KV cache of `peer`."""
    sends_to: OtherLegs = ()
    """Legs that this one gives its result to, beside the KV cache. It then ends as `HANDED_OFF`, without tokens."""
    cache_salt: MaybeName = ""
    """Only requests with the same share KV blocks in a prefix cache."""
    given: Annotated[tuple[PromptRows, ...], Meta(max_length=MAX_GIVEN)] = ()
    """What other components have made of the request: those with a position in its order, apart from each other. Not
    for a scheduler whose status does not say `takes_rows`: the release before would read over them."""
    pooling: Pooling | None = None
    """Set where the prompt's state is wanted, and no tokens: it comes with `Finished`. A whole leg's, and not for a
    scheduler whose status does not say `pools`."""
    later_s: Annotated[float, Meta(ge=-3600, le=3600)] = 0.0
    """How much later than its arrival its turn is, below 0 how much earlier: of the gateway's policy
    (`policies.pools.turns`). A scheduler of the release before, and one that an engine brings, takes all as they
    come."""


class Cancel(Struct, frozen=True, array_like=True, tag="cancel"):
    """Free what the attempt holds, rows that it has made and nobody has taken among it. Not answered; a cancel of
    something unknown is nothing."""

    attempt: Attempt


class Drain(Struct, frozen=True, array_like=True, tag="drain"):
    """Take no new request, finish those held; answered by a `Status` now and another when empty."""


class AskStatus(Struct, frozen=True, array_like=True, tag="ask_status"):
    """Answered by a `Status`."""


class AskPlaces(Struct, frozen=True, array_like=True, tag="ask_places"):
    """Calls wait at the gateway, the first of which must begin within `slack_s`; holds for a second.

    Answered by a `Status` once there are places (`policies.places`). Not for a scheduler that says no `places`, as one
    of the release before."""

    slack_s: Annotated[float, Meta(ge=-1e6, le=1e6)]
    calls: Annotated[int, Meta(ge=0, le=4096)]


class AskStats(Struct, frozen=True, array_like=True, tag="ask_stats"):
    """Answered by `Stats`."""


ToScheduler = Generate | Cancel | Drain | AskStatus | AskPlaces | AskStats | Encode | Make
