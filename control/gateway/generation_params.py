"""What a client wants, whichever endpoint it asked: the checked form of a request body."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from control.gateway.api_error import bad_request, unsupported
from control.gateway.bodies import GenerationBody
from control.gateway.chat_template import ChatMessage
from control.gateway.sampling_defaults import AskedSampling
from control.gateway.service_tier import ServiceTier

_SEEDS = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class GenerationParams:
    model: str
    prompt: str | tuple[int, ...] | Sequence[ChatMessage]
    """Text, tokens, or a conversation."""
    sampling: AskedSampling
    max_tokens: int | None
    """None: up to the end of the context."""
    stop: tuple[str, ...]
    is_stream: bool
    with_usage: bool
    """A last chunk with usage, when streaming."""
    ignores_eos: bool
    service_tier: ServiceTier | None
    """As it was asked for."""


def sampling_of(body: GenerationBody, top_logprobs: int | None) -> AskedSampling:
    """A request without a seed gets one here: it must go on with the same one should its instance fail."""
    return AskedSampling(
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        seed=secrets.randbits(62) if body.seed is None else body.seed & _SEEDS,
        top_logprobs=top_logprobs,
    )


def refuse_unsupported(body: GenerationBody) -> None:
    """Raises ApiError for what the OpenAI API has and nothing here can honour."""
    if body.n not in (None, 1):
        raise unsupported("n", "ask for one choice, and send as many requests as you want choices")
    for name in ("presence_penalty", "frequency_penalty"):
        if getattr(body, name) not in (None, 0):
            raise unsupported(name, "engines do not have it; leave it out or set it to 0")
    if body.logit_bias:
        raise unsupported("logit_bias", "engines do not have it; leave it out")
    if body.stream_options is not None and not body.stream:
        raise bad_request("`stream_options` is only allowed with `stream: true`", "stream_options")


def stops_of(body: GenerationBody) -> tuple[str, ...]:
    return (body.stop,) if isinstance(body.stop, str) else tuple(dict.fromkeys(body.stop or ()))
