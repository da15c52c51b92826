"""POST /v1/responses: from body to the chat that asks the same."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from control.gateway.api_error import ApiError, bad_request, unsupported
from control.gateway.bodies import (
    Called,
    CalledFunction,
    ChatBody,
    ContentPart,
    ImageUrl,
    Message,
    NamedFunction,
    NamedTool,
    Tool,
    ToolFunction,
)
from control.gateway.chat_request import chat_params
from control.gateway.generation_params import Conversation, GenerationParams
from control.gateway.response_body import InputItem, ItemPart, NamedResponseTool, ResponseBody, ResponseTool

LOGPROBS = "message.output_text.logprobs"
_INCLUDED = (LOGPROBS, "reasoning.encrypted_content")
"""What an answer may be asked to have more: reasoning comes as text, which needs no encryption to be sent back."""
_IMAGE = "input_image"
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_PARAMS = {"messages": "input", "response_format": "text.format", "max_completion_tokens": "max_output_tokens"}
"""Parameter of a chat → what a response calls it."""
_WORDS = (
    (re.compile(r"`messages\[\d+\][^`]*`"), "an item of `input`"),
    (re.compile(r"`response_format(?:\.json_schema)?\b"), "`text.format"),
)
"""How the messages of a chat's errors name them, and how those of a response do; several items may be one message."""
_STATELESS = "nothing is kept here: send the conversation so far as `input`"


def params_of(body: ResponseBody) -> GenerationParams:
    """Return what is to be generated for a response. Raises ApiError."""
    places: list[str] = []
    params = chat_params(chat_of(body, places))
    (asked,) = params.prompts
    if isinstance(asked, Conversation):
        asked = _named_as_sent(asked, places)
    return replace(params, prompts=(asked,), with_usage=True)


def in_own_words(error: ApiError) -> ApiError:
    """Return the error of a chat as one of the response that asked it."""
    error.param = _PARAMS.get(error.param or "", error.param)
    for theirs, ours in _WORDS:
        error.message = theirs.sub(ours, error.message)
    return error


def _named_as_sent(asked: Conversation, places: Sequence[str]) -> Conversation:
    """The conversation, with its pictures named by the items that they came in: several may be one message."""
    media = tuple(replace(part, where=where) for part, where in zip(asked.media, places, strict=True))
    return replace(asked, media=media)


def chat_of(body: ResponseBody, places: list[str]) -> ChatBody:
    """Return the body of the chat whose answer is the response's, and add to `places` where its pictures are. Raises
    ApiError for what no chat could say, or what needs an answer to be kept."""
    _check(body)
    messages = [Message(role="system", content=body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        messages.append(Message(role="user", content=body.input))
    else:
        messages += _messages(body.input, places)
    if not messages:
        raise bad_request("`input` is empty", "input")
    choice = body.tool_choice
    has_logprobs = LOGPROBS in (body.include or ()) or bool(body.top_logprobs)
    return ChatBody(
        model=body.model,
        messages=messages,
        max_completion_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        min_p=body.min_p,
        repetition_penalty=body.repetition_penalty,
        seed=body.seed,
        stop=body.stop,
        stream=body.stream,
        logprobs=has_logprobs,
        top_logprobs=body.top_logprobs if has_logprobs else None,
        response_format=_form(body),
        tools=[_tool(tool, n) for n, tool in enumerate(body.tools or ())],
        tool_choice=_named(choice) if isinstance(choice, NamedResponseTool) else choice,
        parallel_tool_calls=body.parallel_tool_calls,
        chat_template_kwargs=_arguments(body),
        service_tier=body.service_tier,
        cache_salt=body.cache_salt,
    )


def _check(body: ResponseBody) -> None:
    if body.previous_response_id is not None:
        raise unsupported("previous_response_id", _STATELESS)
    if body.conversation is not None:
        raise unsupported("conversation", _STATELESS)
    if body.store:
        raise unsupported("store", "nothing is kept here; leave it out, or send false")
    if body.background:
        raise unsupported("background", "nothing is kept here that could be asked for later; stream the answer")
    if body.prompt is not None:
        raise unsupported("prompt", "no templates are kept here; send the text as `instructions` and `input`")
    if body.truncation == "auto":
        raise unsupported("truncation", "nothing is left out of a conversation; shorten it before")
    if body.reasoning and (body.reasoning.summary or body.reasoning.generate_summary) not in (None, "auto"):
        raise unsupported("reasoning.summary", "reasoning comes as it is, where the model shows some")
    if body.text and body.text.verbosity not in (None, "medium"):
        raise unsupported("text.verbosity", "ask for it in `instructions`")
    for name in body.include or ():
        if name not in _INCLUDED:
            raise unsupported("include", f"`{name}` is of nothing that is here; {' and '.join(_INCLUDED)} can be had")


def _form(body: ResponseBody) -> dict[str, Any] | None:
    form = body.text.format if body.text else None
    if form is None or form.get("type") != "json_schema":
        return form
    return {"type": "json_schema", "json_schema": {key: value for key, value in form.items() if key != "type"}}


def _arguments(body: ResponseBody) -> dict[str, Any] | None:
    effort = body.reasoning.effort if body.reasoning else None
    return (
        body.chat_template_kwargs
        if effort is None
        else {"reasoning_effort": effort, **(body.chat_template_kwargs or {})}
    )


def _tool(tool: ResponseTool, number: int) -> Tool:
    if tool.type != "function":
        raise unsupported("tools", f"`tools[{number}]` is a `{tool.type}`, and only functions can be called")
    if tool.name is None:
        raise bad_request(f"`tools[{number}]` has no name", "tools")
    return Tool(
        "function",
        ToolFunction(name=tool.name, description=tool.description, parameters=tool.parameters, strict=tool.strict),
    )


def _named(choice: NamedResponseTool) -> NamedTool:
    return NamedTool("function", NamedFunction(choice.name))


def _messages(items: Sequence[InputItem], places: list[str]) -> Iterator[Message]:
    """Yield the messages of a chat: reasoning, text and calls that follow each other are one answer."""
    answer: Message | None = None
    for number, item in enumerate(items):
        part = _message(item, f"input[{number}]", places)
        if part.role != "assistant":
            if answer is not None:
                yield answer
            answer = None
            yield part
        elif answer is None:
            answer = part
        elif _goes_on(answer, part):
            answer.content = answer.content or part.content
            answer.tool_calls = [*(answer.tool_calls or ()), *(part.tool_calls or ())] or None
        else:
            yield answer
            answer = part
    if answer is not None:
        yield answer


def _goes_on(answer: Message, part: Message) -> bool:
    """Tell whether a part of an answer is of the same one: reasoning begins one, and calls come behind its text."""
    if part.reasoning:
        return False
    return part.content is None or (answer.content is None and not answer.tool_calls)


def _message(item: InputItem, where: str, places: list[str]) -> Message:
    match item.type:
        case "message":
            if item.role is None or item.content is None:
                raise bad_request(f"`{where}`: a message has a `role` and `content`", "input")
            return Message(role=item.role, content=_content(item.content, f"{where}.content", places))
        case "function_call":
            if item.call_id is None or item.name is None:
                raise bad_request(f"`{where}`: a call has a `call_id` and a `name`", "input")
            called = Called(CalledFunction(item.name, item.arguments or "{}"), item.call_id)
            return Message(role="assistant", tool_calls=[called])
        case "function_call_output":
            if item.call_id is None or item.output is None:
                raise bad_request(f"`{where}`: what a call gave has its `call_id` and `output`", "input")
            content = _content(item.output, f"{where}.output", places)
            return Message(role="tool", content=content, tool_call_id=item.call_id)
        case "reasoning":
            parts = item.content or item.summary or ""
            return Message(role="assistant", reasoning=parts if isinstance(parts, str) else _joined(parts, where))
        case "item_reference":
            raise unsupported("input", f"`{where}` refers to an item, and {_STATELESS}")
        case other:
            raise unsupported("input", f"`{where}` is of type `{other}`; messages, functions and reasoning are")


def _content(content: str | list[ItemPart], where: str, places: list[str]) -> str | list[ContentPart]:
    """Return the content of a chat's message, and add to `places` where its pictures are. Raises ApiError."""
    if isinstance(content, str):
        return content
    parts: list[ContentPart] = []
    for number, part in enumerate(content):
        if part.type == _IMAGE:
            places.append(f"{where}[{number}]")
            parts.append(_picture(part, places[-1]))
        else:
            parts.append(ContentPart("text", _text(part, where)))
    return parts


def _picture(part: ItemPart, where: str) -> ContentPart:
    if part.image_url is None:
        raise unsupported("input", f"`{where}`: no files are kept here; send a `data:` or `https:` URL as `image_url`")
    return ContentPart("image_url", image_url=ImageUrl(part.image_url, part.detail))


def _joined(parts: Sequence[ItemPart], where: str) -> str:
    return "".join(_text(part, where) for part in parts)


def _text(part: ItemPart, where: str) -> str:
    if part.type not in _TEXTS or part.text is None:
        raise unsupported("input", f"`{where}` has a part of type `{part.type}`; text and `{_IMAGE}` are")
    return part.text
