"""POST /v1/chat/completions: from body to `GenerationParams`."""

from collections.abc import Mapping, Sequence
from typing import Any

from control.gateway.api_error import bad_request, unsupported
from control.gateway.bodies import ChatBody, Message
from control.gateway.chat_template import RESERVED, ChatMessage
from control.gateway.generation_params import (
    Conversation,
    GenerationParams,
    check_common,
    sampling_of,
    stop_tokens_of,
    stops_of,
)

_ROLES = ("system", "developer", "user", "assistant")


def chat_params(body: ChatBody) -> GenerationParams:
    """Raises ApiError."""
    check_common(body, 1)
    if body.tools or body.functions:
        raise unsupported("tools" if body.tools else "functions", "models answer in text only")
    if body.response_format is not None and body.response_format.get("type") != "text":
        raise unsupported("response_format", 'only {"type": "text"} is')
    if body.modalities not in (None, ["text"]):
        raise unsupported("modalities", 'only ["text"] is')
    if body.top_logprobs is not None and not body.logprobs:
        raise bad_request("`top_logprobs` needs `logprobs: true`", "top_logprobs")
    return GenerationParams(
        model=body.model,
        prompts=(conversation(body.messages, body.chat_template_kwargs),),
        choices=body.n or 1,
        sampling=sampling_of(body, (body.top_logprobs or 0) if body.logprobs else None),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        stop=stops_of(body),
        stop_token_ids=stop_tokens_of(body),
        is_stream=bool(body.stream),
        with_usage=body.stream_options is not None and body.stream_options.include_usage,
        ignores_eos=bool(body.ignore_eos),
        service_tier=body.service_tier,
    )


def conversation(messages: Sequence[Message], arguments: Mapping[str, Any] | None) -> Conversation:
    """`arguments`: for the model's template. Raises ApiError."""
    taken = sorted(RESERVED.intersection(arguments or ()))
    if taken:
        raise bad_request(
            f"`chat_template_kwargs` may not name {', '.join(taken)}: the conversation has fields of its own",
            "chat_template_kwargs",
        )
    return Conversation([_message(message, index) for index, message in enumerate(messages)], arguments or {})


def _message(message: Message, index: int) -> ChatMessage:
    if message.role not in _ROLES or message.tool_calls or message.function_call or message.audio:
        raise bad_request(f"`messages[{index}]`: only text of {', '.join(_ROLES)} is supported", "messages")
    role = "system" if message.role == "developer" else message.role
    plain = {"role": role, "content": _text(message, index)}
    return plain if message.name is None else {**plain, "name": message.name}


def _text(message: Message, index: int) -> str:
    """Parts of text are one text; anything else is not for these models."""
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for part in message.content:
        if part.type != "text" or part.text is None:
            raise bad_request(f"`messages[{index}].content`: parts of type `{part.type}` are not supported", "messages")
    return "".join(part.text or "" for part in message.content)
