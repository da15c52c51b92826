"""Choice of the next token of a request."""

import math
from dataclasses import dataclass

MAX_LOGPROBS = 20
"""The most alternatives the OpenAI API lets a client ask for."""


@dataclass(frozen=True, slots=True)
class LogitRules:
    """Changes to the logits before temperature and cuts, with the meaning and in the order of vLLM: biases and withheld
    tokens, then repetition, frequency and presence. Penalties count tokens, so that whoever knows the text goes on."""

    presence_penalty: float = 0.0
    """Taken off the logit of each token in the output."""
    frequency_penalty: float = 0.0
    """Taken off for each time that a token is in the output."""
    repetition_penalty: float = 1.0
    """Divides positive logits, and multiplies negative ones, of tokens in prompt or output."""
    min_p: float = 0.0
    """Tokens less likely than this share of the likeliest one, after temperature, are not drawn."""
    bias: tuple[tuple[int, float], ...] = ()
    """(token, added to its logit); each token once."""
    withheld: tuple[int, ...] = ()
    """Tokens that are not chosen at a position below `withheld_until`."""
    withheld_until: int = 0
    grammar: str = ""
    """That the output obeys, in llguidance's form of Lark; empty: any text."""
    grammar_ends: tuple[int, ...] = ()
    """Tokens that may come when the grammar is fulfilled."""

    def __post_init__(self) -> None:
        for name in ("presence_penalty", "frequency_penalty"):
            if not -2 <= getattr(self, name) <= 2:
                raise ValueError(f"{name} must be in [-2, 2], is {getattr(self, name)}")
        if not 0 < self.repetition_penalty <= 100:
            raise ValueError(f"repetition_penalty must be in (0, 100], is {self.repetition_penalty}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p must be in [0, 1], is {self.min_p}")

    @property
    def counts_tokens(self) -> bool:
        """Whether the tokens so far must be known."""
        return bool(self.presence_penalty or self.frequency_penalty) or self.counts_prompt

    @property
    def counts_prompt(self) -> bool:
        return self.repetition_penalty != 1


@dataclass(frozen=True, slots=True)
class RuledText:
    """Rules by which tokens of a request are chosen, and those before the first that is."""

    rules: LogitRules
    prompt: tuple[int, ...] = ()
    """Empty where no rule counts them, as is `output`."""
    output: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """The choice is a function of these values, rules where the request has some, the logits, the token's position and
    the tokens before it: no generator carries state, so a request that goes on elsewhere after a failure gets the token
    it would have got."""

    temperature: float = 0.0
    """0 is greedy: the likeliest token, the lowest id among equals."""
    top_p: float = 1.0
    top_k: int = 0
    """0: all tokens."""
    seed: int = 0
    stop_token_ids: tuple[int, ...] = ()
    """A sampled token among these is returned with `stop` set; stop strings are the caller's."""
    logprobs: int | None = None
    """None: no log probabilities. n ≥ 0: the sampled token's, and the n likeliest alternatives."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and 0 <= self.temperature <= 100):
            raise ValueError(f"temperature must be in [0, 100], is {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], is {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (all) or more, is {self.top_k}")
        if self.logprobs is not None and not 0 <= self.logprobs <= MAX_LOGPROBS:
            raise ValueError(f"logprobs must be in [0, {MAX_LOGPROBS}], is {self.logprobs}")


GREEDY = Sampling()
