"""POST /v1/chat/completions: from body to `GenerationParams`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from control.gateway.answer_grammar import STRUCTURED, check_form, format_grammar, structured_grammar
from control.gateway.api_error import bad_request, unsupported
from control.gateway.bodies import Called, ChatBody, Message, NamedTool, Tool
from control.gateway.chat_template import RESERVED, ChatMessage
from control.gateway.generation_params import (
    Conversation,
    GenerationParams,
    Tools,
    check_common,
    sampling_of,
    stop_tokens_of,
    stops_of,
)
from control.gateway.media.part import MediaPart, check_count, media_part
from templates_lib.graphs.component import Modality

_ROLES = ("system", "developer", "user", "assistant", "tool")


def chat_params(body: ChatBody) -> GenerationParams:
    """Raises ApiError."""
    check_common(body, 1)
    if body.functions:
        raise unsupported("functions", "they are `tools` now")
    tools, grammar = _chosen_tools(body), format_grammar(body.response_format)
    if grammar and body.structured_outputs is not None:
        raise bad_request(f"`{STRUCTURED}` and `response_format` each say a form; send one", STRUCTURED)
    grammar = grammar or structured_grammar(body.structured_outputs)
    check_form(body, is_held=bool(grammar or (tools and tools.must_call)))
    if body.top_logprobs is not None and not body.logprobs:
        raise bad_request("`top_logprobs` needs `logprobs: true`", "top_logprobs")
    return GenerationParams(
        model=body.model,
        prompts=(conversation(body.messages, body.chat_template_kwargs, tools),),
        choices=body.n or 1,
        sampling=replace(sampling_of(body, (body.top_logprobs or 0) if body.logprobs else None), grammar=grammar),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        stop=stops_of(body),
        stop_token_ids=stop_tokens_of(body),
        is_stream=bool(body.stream),
        with_usage=body.stream_options is not None and body.stream_options.include_usage,
        ignores_eos=bool(body.ignore_eos),
        service_tier=body.service_tier,
        cache_salt=body.cache_salt or "",
        form_param="response_format" if body.structured_outputs is None else STRUCTURED,
        answer=_answer(body),
    )


def conversation(messages: Sequence[Message], arguments: Mapping[str, Any] | None, tools: Tools | None) -> Conversation:
    """`arguments`: for the model's template. Raises ApiError."""
    taken = sorted(RESERVED.intersection(arguments or ()))
    if taken:
        raise bad_request(
            f"`chat_template_kwargs` may not name {', '.join(taken)}: the conversation has fields of its own",
            "chat_template_kwargs",
        )
    media: list[MediaPart] = []
    shown = [_message(message, index, media) for index, message in enumerate(messages)]
    check_count(media)
    return Conversation(shown, arguments or {}, tools, tuple(media))


def tools_of(tools: Sequence[Tool] | None, *, is_parallel: bool = True) -> Tools | None:
    """None where there are none. Raises ApiError."""
    if not tools:
        return None
    names = [tool.function.name for tool in tools]
    if len(set(names)) < len(names):
        raise bad_request("`tools`: each has a name of its own", "tools")
    shown = [msgspec.structs.replace(tool.function, strict=None) for tool in tools]
    definitions = ({"type": "function", "function": msgspec.to_builtins(function)} for function in shown)
    return Tools(tuple(definitions), is_parallel)


def _answer(body: ChatBody) -> Modality:
    """Return what the answer is of; a sound or picture comes with its text. Raises ApiError."""
    asked = set(body.modalities or (Modality.TEXT,))
    known = [each for each in Modality if each in asked]
    if len(known) < len(asked):
        raise bad_request(f"`modalities` are of {', '.join(Modality)}", "modalities")
    beside = [each for each in known if each is not Modality.TEXT]
    if len(beside) > 1:
        raise bad_request(f"`modalities`: one of {' and '.join(beside)} at a time, beside text", "modalities")
    if body.audio is not None and Modality.AUDIO not in beside:
        raise bad_request('`audio` says how an answer is spoken: it needs `modalities: ["text", "audio"]`', "audio")
    return beside[0] if beside else Modality.TEXT


def _chosen_tools(body: ChatBody) -> Tools | None:
    """Tools that the answer may call. Raises ApiError."""
    tools = tools_of(body.tools, is_parallel=body.parallel_tool_calls is not False)
    choice = body.tool_choice
    if choice in (None, "auto"):
        return tools
    if choice == "none":
        return None
    if tools is None:
        raise bad_request("`tool_choice` needs `tools`", "tool_choice")
    if not isinstance(choice, NamedTool):
        return replace(tools, must_call=True)
    chosen = tuple(each for each in tools.definitions if each["function"]["name"] == choice.function.name)
    if not chosen:
        raise bad_request(f"`tool_choice`: there is no tool `{choice.function.name}` in `tools`", "tool_choice")
    return Tools(chosen, is_parallel=False, must_call=True)


def _message(message: Message, index: int, media: list[MediaPart]) -> ChatMessage:
    """As templates know it; its pictures and sounds are added to `media`. Raises ApiError."""
    if message.role not in _ROLES or message.function_call or message.audio:
        raise bad_request(f"`messages[{index}]`: only text of {', '.join(_ROLES)} is supported", "messages")
    if message.tool_calls and message.role != "assistant":
        raise bad_request(f"`messages[{index}].tool_calls`: only an assistant calls tools", "messages")
    shown: ChatMessage = {
        "role": "system" if message.role == "developer" else message.role,
        "content": _content(message, index, media),
    }
    if message.name is not None:
        shown["name"] = message.name
    if message.tool_call_id is not None:
        shown["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        shown["tool_calls"] = [
            _call(call, f"messages[{index}].tool_calls[{n}]") for n, call in enumerate(message.tool_calls)
        ]
    reasoning = message.reasoning or message.reasoning_content
    if reasoning:  # templates differ in the name
        shown |= {"reasoning": reasoning, "reasoning_content": reasoning, "thinking": reasoning}
    return shown


def _call(call: Called, where: str) -> dict[str, Any]:
    """Templates want arguments as an object."""
    try:
        arguments = msgspec.json.decode(call.function.arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(
            f"`{where}.function.arguments` is no JSON object ({error}); send the call as it was made, or leave it out",
            "messages",
        ) from None
    function = {"name": call.function.name, "arguments": arguments}
    return {"type": "function", "function": function} | ({} if call.id is None else {"id": call.id})


def _content(message: Message, index: int, media: list[MediaPart]) -> str | list[dict[str, str]]:
    """One text, or, where there are pictures or sounds, the parts in their order as templates know them; those are
    added to `media`. Raises ApiError."""
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    shown: list[dict[str, str]] = []
    for number, part in enumerate(message.content):
        found = media_part(part, f"messages[{index}].content[{number}]")
        if found is None:
            shown.append({"type": "text", "text": part.text or ""})
        else:
            shown.append({"type": found.modality.value})
            media.append(found)
    if all(part["type"] == "text" for part in shown):
        return "".join(part["text"] for part in shown)
    return shown
