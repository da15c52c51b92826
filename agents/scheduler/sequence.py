"""One request as the scheduler holds it."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec

from agents.messages.to_gateway import FinishReason, TokenLogprobs, TokenRun
from agents.messages.to_scheduler import Generate, Leg, Pooling, Sampling
from agents.messages.to_stage import PooledPrompt, RuledText
from agents.scheduler.block_book import BlockName
from agents.scheduler.block_digests import extend_digests
from agents.scheduler.given import may_share_blocks
from agents.scheduler.prompt_look_up import DraftTrust, as_characters, look_up

Key = tuple[Hashable, int]
"""Whoever asked, and the attempt's number with them."""


class SequencePhase(Enum):
    """State of a request beside its steps; it passes through as many of these as its leg has."""

    EXPECTED = auto()
    """Decode leg: its prompt is being computed at the other instance. Holds nothing here."""
    OFFERED = auto()
    """Decode leg: its KV cache can come, and it waits for room."""
    COMING = auto()
    """Decode leg: its room is reserved, its KV cache is on its way."""
    FETCHING = auto()
    """Has its room, and rows of other components that it needs are on their way."""
    COMPUTED = auto()
    """Waits for its turn, or takes part in steps."""
    HELD = auto()
    """Prefill leg: done but for its KV cache, which stays until the other instance has all of it."""


@dataclass(slots=True)
class ActiveRun:
    """Place, blocks and progress of a request while it runs: lost as a whole when it is preempted."""

    run: int
    """Names it to the stages; a request that is admitted again has another one, so that late results are not mixed."""
    group: int
    nodes: tuple[int, ...]
    """Its node in each stage, for as long as its KV cache lives."""
    blocks: int
    """KV blocks, the same number on each of its nodes."""
    prompt: int
    """Tokens to compute before it samples."""
    known: tuple[list[BlockName], ...] = ()
    """Those of its blocks, at the node of each stage, that others may hold too: in the order of its text."""
    shared_tokens: int = 0
    """Tokens whose KV cache was there when it was admitted: where its first step begins."""
    position: int = 0
    """Tokens in the KV cache."""
    has_sampled: bool = False
    awaited: set[int] = field(default_factory=set)
    """Stages whose node has not got all of the KV cache that comes."""
    given_rows: int = 0
    """Of other components, that its node of the first stage holds, or is to take."""
    awaited_rows: set[int] = field(default_factory=set)
    """Stages whose node has not got all rows of other components that it is to take."""
    target_run: int = -1
    """What the run is called where its KV cache goes; -1 until that is known."""
    moved_bytes: int = 0
    """Of the KV cache that came, over the links."""
    knows_rules: bool = False
    """The worker that samples has been told its rules."""
    published: int = 0
    """Of its first blocks, those whose digests are known, its own or others'."""
    trust: DraftTrust = field(default_factory=DraftTrust)

    @property
    def is_new(self) -> bool:
        """Tell whether no step of it is over."""
        return self.position == self.shared_tokens and not self.has_sampled


@dataclass(slots=True, eq=False)
class Sequence:
    key: Key
    request: Generate
    arrival: int
    """How many came before it."""
    expires_s: float
    max_output: int
    """The request's own limit, or what the context leaves."""
    phase: SequencePhase = SequencePhase.COMPUTED
    admission: ActiveRun | None = None
    is_offered: bool = False
    """Prefill leg: the other instance has been told of its KV cache."""
    turn_s: float = 0.0
    """When it came, or as much later or earlier as its gateway says: whose turn is first is served first and preempted
    last."""
    lacks_token: bool = False
    """Decode leg: the token behind its KV cache is not known yet."""
    cached_tokens: int | None = None
    """Of what it came with, tokens that were not computed, as their KV cache was there; None before it is admitted."""
    digests: list[bytes] = field(default_factory=list)
    """Of its first full blocks, as many as were asked for."""
    characters: str = ""
    """Its tokens for look-ups, as far as one was made."""
    tokens: list[int] = field(init=False)
    """Prompt and output so far."""
    sampling: Sampling = field(init=False)
    """As each step is told it: without rules, which are told once a run."""

    def __post_init__(self) -> None:
        self.tokens = [*self.request.prompt, *self.request.generated]
        asked = self.request.sampling
        self.sampling = asked if asked.rules is None else msgspec.structs.replace(asked, rules=None)

    def block_digests(self, block_tokens: int, blocks: int) -> list[bytes]:
        """Return the digests of its first blocks, which are full."""
        extend_digests(self.digests, self.tokens, block_tokens, blocks, self.request.cache_salt, self.request.given)
        return self.digests[:blocks]

    @property
    def turn(self) -> tuple[float, int]:
        return self.turn_s, self.arrival

    @property
    def shares_blocks(self) -> bool:
        """Tell whether its KV cache may be that of others with the same tokens, and rows of the same keys in their
        places. A decode leg's comes from elsewhere, and for a mean all tokens are computed."""
        is_known = may_share_blocks(self.request.given)
        return is_known and self.request.leg is not Leg.DECODE and self.request.pooling is not Pooling.MEAN

    @property
    def pooled(self) -> PooledPrompt | None:
        """Return what its steps are to make of the prompt; None: tokens."""
        pooling = self.request.pooling
        return None if pooling is None else PooledPrompt(pooling, len(self.request.prompt))

    @property
    def cached_prompt_tokens(self) -> int:
        """Return how many tokens of its prompt were found in the cache."""
        return min(self.cached_tokens or 0, len(self.request.prompt))

    @property
    def is_prefill(self) -> bool:
        return self.request.leg is Leg.PREFILL

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def needed_tokens(self) -> int:
        """Tokens that need room when it is admitted."""
        return len(self.tokens) + self.lacks_token

    @property
    def most_cached(self) -> int:
        """Tokens in the cache when its last one is sampled."""
        if self.is_prefill:
            return len(self.request.prompt) + len(self.request.generated)
        return len(self.request.prompt) + self.max_output - 1

    @property
    def has_own_kv(self) -> bool:
        """Tell whether its KV cache comes, or came, of its own steps, or is all here."""
        return self.phase in (SequencePhase.COMPUTED, SequencePhase.FETCHING)

    @property
    def is_pinned(self) -> bool:
        """Tell whether another instance reads or writes its KV cache, which it cannot give up alone then."""
        is_sent = self.admission is not None and self.admission.target_run >= 0
        return is_sent or self.phase in (SequencePhase.COMING, SequencePhase.HELD)

    def tell_rules(self, held: ActiveRun) -> RuledText | None:
        """Return what the worker that samples next must know of rules, once a run: it keeps them and what it chose."""
        rules = self.request.sampling.rules
        if rules is None or held.knows_rules:
            return None
        held.knows_rules, prompt = True, self.request.prompt
        output = tuple(self.tokens[len(prompt) :]) if rules.counts_tokens else ()
        return RuledText(rules, prompt if rules.counts_prompt else (), output)

    def draft(self, ngram: int, most: int) -> tuple[int, ...]:
        """Return up to `most` tokens that may come next; none where that is 0 or less."""
        if most < 1:
            return ()
        try:
            self.characters += as_characters(self.tokens[len(self.characters) :])
        except UnicodeDecodeError:
            return ()  # no vocabulary has a million tokens
        return look_up(self.characters, ngram, most)

    def append(
        self, tokens: Iterable[int], logprobs: tuple[TokenLogprobs, ...]
    ) -> tuple[TokenRun | None, FinishReason | None]:
        """Append sampled tokens, up to the one that ends the output; return what to tell of them, and the reason once
        it has ended. A stop token is not sent."""
        first = self.output_tokens
        reason: FinishReason | None = None
        for token in tokens:
            if token in self.request.stop_ids:
                reason = FinishReason.STOP
                break
            self.tokens.append(token)
            if self.output_tokens >= self.max_output:
                reason = FinishReason.LENGTH
                break
        made = self.tokens[len(self.request.prompt) + first :]
        run = TokenRun(self.request.attempt, first, tuple(made), logprobs[: len(made)]) if made else None
        return run, reason
