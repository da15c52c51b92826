"""What an instance's scheduler and the engine's thread say to each other, and what the engine is made with."""

from dataclasses import dataclass
from typing import Any

from agents.messages.to_gateway import FinishReason, TokenLogprobs
from agents.messages.to_scheduler import Leg, Sampling

HostKv = Any
"""A `host_kv.HostKv`. Those who pass it on need no torch."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Compute one request, or one leg of it."""

    id: str
    tokens: tuple[int, ...]
    """Prompt, and the output so far."""
    max_new_tokens: int
    stop_ids: tuple[int, ...]
    sampling: Sampling
    prompt_tokens: int
    """So many of `tokens` are the prompt's."""
    leg: Leg = Leg.WHOLE
    """Prefill: the KV cache of `tokens` stays when the request ends by its length, until it is aborted. Decode: that of
    all tokens but the last comes from elsewhere."""
    cache_salt: str = ""
    """Only requests with the same begin with KV blocks of each other."""


@dataclass(frozen=True, slots=True)
class Export:
    """Copy the KV cache of a prefill leg that has ended out of the engine; answered by `Exported`."""

    id: str


@dataclass(frozen=True, slots=True)
class Bring:
    """The KV cache of a decode leg is here: put it in place and go on behind it."""

    id: str
    kv: HostKv


Told = Ask | str | Export | Bring
"""What the engine's thread is told; a string is the id of a request to abort."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """The engine has room for the KV cache of a decode leg."""

    id: str
    is_here: bool
    """It is in the engine's prefix cache already: nothing needs to come."""


@dataclass(frozen=True, slots=True)
class Exported:
    id: str
    kv: HostKv
    """Of a layer with a window, what older tokens have is undefined."""


KvNews = Reserved | Exported


@dataclass(frozen=True, slots=True)
class KvFacts:
    """KV cache of the engine as other instances need to know it, with all layers and heads; or that of one rank."""

    kv_heads: int
    head_dim: int
    dtype: str
    """As torch calls it."""
    block_tokens: int
    windows: tuple[int, ...]
    """Of each layer, in tokens; 0: it keeps all of them."""
    is_pinned: bool = False
    """Host memory that it is copied through is pinned."""
    is_shared: bool = False
    """That memory is shared by the processes of the engine, each of which has a part of the layers and heads."""


def first_kept_token(window: int, tokens: int) -> int:
    """Return the first token that a layer with this window, or none, keeps of a request with `tokens` in its cache: the
    oldest that the next one sees."""
    return max(0, tokens - window + 1) if window else 0


@dataclass(frozen=True, slots=True)
class Made:
    """Outcome of one step for one request."""

    id: str
    ids: tuple[int, ...]
    """A stop token that ends the output is the last of them."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One for each of `ids` where they were asked for; the chosen token may come after the alternatives."""
    reason: FinishReason | None = None
    cached_tokens: int = 0
    """Of the tokens asked with, found in vLLM's prefix cache."""
    refusal: str = ""
    """Why vLLM does not take the request, or has given it up."""


@dataclass(frozen=True, slots=True)
class EngineLoad:
    running: int
    """Requests that compute, or hold KV blocks for a hand-off."""
    kv_blocks: int
    kv_blocks_free: int
    """Blocks that hold nothing but reusable prefixes are free."""
    obeys_grammars: bool = False
    """The model's tokens are known as text."""


@dataclass(frozen=True, slots=True)
class Split:
    """How vLLM cuts the model over the devices that its process sees."""

    tensor_parallel: int = 1
    """Devices that each part is cut over, by heads and feed-forward width."""
    parts: int = 1
    """Consecutive parts of the layers, on devices of their own: a pipeline inside the node."""
    whole_experts: bool = False
    """Each device of a part holds some experts whole, and not a part of all."""

    @property
    def devices(self) -> int:
        return self.tensor_parallel * self.parts


WHOLE = Split()
