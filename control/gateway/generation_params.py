"""What a client wants, whichever endpoint it asked: the checked form of a request body."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from control.gateway.api_error import bad_request
from control.gateway.bodies import MAX_CHOICES, GenerationBody
from control.gateway.chat_template import ChatMessage
from control.gateway.media.part import MediaPart
from control.gateway.sampling_defaults import AskedSampling
from control.gateway.service_tier import ServiceTier
from templates_lib.graphs.component import Modality

_SEEDS = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class Tools:
    """Tools that an answer may call."""

    definitions: tuple[dict[str, Any], ...]
    """As JSON objects, for the model's template."""
    is_parallel: bool
    """An answer may have several calls."""
    must_call: bool = False
    """The answer is a call of one of these, and not text."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each["function"]["name"] for each in self.definitions)


@dataclass(frozen=True, slots=True)
class Conversation:
    messages: Sequence[ChatMessage]
    arguments: Mapping[str, Any]
    """More names for the model's template."""
    tools: Tools | None = None
    media: tuple[MediaPart, ...] = ()
    """Pictures and sounds of all messages, in their order."""


@dataclass(frozen=True, slots=True)
class Speech:
    """Speech to be written down, by a model whose decoder attends to what it hears."""

    media: tuple[MediaPart, ...]
    """One."""
    language: str | None
    """ISO-639-1; None: it is not said."""


Prompt = str | tuple[int, ...] | Conversation | Speech
"""Text, tokens, a conversation, or speech."""


def media_of(prompt: Prompt) -> tuple[MediaPart, ...]:
    """Pictures and sounds of a prompt, in their order."""
    return prompt.media if isinstance(prompt, Conversation | Speech) else ()


@dataclass(frozen=True, slots=True)
class GenerationParams:
    model: str
    prompts: tuple[Prompt, ...]
    choices: int
    """Answers to each prompt."""
    sampling: AskedSampling
    max_tokens: int | None
    """None: up to the end of the context."""
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    """Beside those of the model."""
    is_stream: bool
    with_usage: bool
    """A last chunk with usage, when streaming."""
    ignores_eos: bool
    service_tier: ServiceTier | None
    """As it was asked for."""
    cache_salt: str
    """Only requests with the same are answered from what a prefix cache has of each other; empty is one, too."""
    form_param: str = "response_format"
    """Of the request: what the grammar of `sampling` came of."""
    is_embedding: bool = False
    """A vector of each prompt is wanted, and no answer to it."""
    answer: Modality = Modality.TEXT
    """What a conversation is answered with; a sound or picture comes beside its text."""


def sampling_of(body: GenerationBody, top_logprobs: int | None) -> AskedSampling:
    """A request without a seed gets one here: it must go on with the same one should its instance fail."""
    return AskedSampling(
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        seed=secrets.randbits(62) if body.seed is None else body.seed & _SEEDS,
        top_logprobs=top_logprobs,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        repetition_penalty=body.repetition_penalty,
        min_p=body.min_p,
        bias=tuple((body.logit_bias or {}).items()),
        min_tokens=body.min_tokens or 0,
    )


def check_common(body: GenerationBody, prompts: int) -> None:
    """Check what types and bounds alone do not say. Raises ApiError."""
    if body.stream_options is not None and not body.stream:
        raise bad_request("`stream_options` is only allowed with `stream: true`", "stream_options")
    if prompts * (body.n or 1) > MAX_CHOICES:
        raise bad_request(
            f"{prompts} prompts of {body.n or 1} answers each are more than {MAX_CHOICES}: send several requests",
            "n" if prompts == 1 else "prompt",
        )


def stops_of(body: GenerationBody) -> tuple[str, ...]:
    return (body.stop,) if isinstance(body.stop, str) else tuple(dict.fromkeys(body.stop or ()))


def stop_tokens_of(body: GenerationBody) -> tuple[int, ...]:
    return tuple(dict.fromkeys(body.stop_token_ids or ()))
