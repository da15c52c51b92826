"""The body of POST /v1/responses: a conversation as items, of OpenAI's newer API."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from agents.messages.bounds import MAX_TOKENS, MAX_TOP_LOGPROBS
from control.gateway.bodies import MAX_STOP_CHARACTERS, MAX_STOPS, MAX_TOOLS, CacheSalt, TemplateArguments
from control.gateway.service_tier import ServiceTier

MAX_ITEMS = 4096

_Name = Annotated[str, Meta(max_length=512)]
_ToolName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.\-]{1,64}\Z")]
_Stop = Annotated[str, Meta(min_length=1, max_length=MAX_STOP_CHARACTERS)]


class ItemPart(Struct):
    """Part of an item's content, as it is sent or as it was answered."""

    type: _Name
    text: str | None = None
    image_url: str | None = None
    """URL of an `input_image`."""
    file_id: _Name | None = None
    """Read to say that there are no files here."""
    detail: Literal["auto", "low", "high"] | None = None


class InputItem(Struct, kw_only=True, forbid_unknown_fields=True):
    """A message, a call, what a call gave, or reasoning: `type` says which; a message may leave it out."""

    type: _Name = "message"
    role: _Name | None = None
    content: str | list[ItemPart] | None = None
    call_id: _Name | None = None
    name: _Name | None = None
    arguments: str | None = None
    output: str | list[ItemPart] | None = None
    summary: list[ItemPart] | None = None
    id: _Name | None = None
    """Accepted and not used, as is what follows: clients send items back as they got them."""
    status: _Name | None = None
    phase: _Name | None = None
    namespace: _Name | None = None
    encrypted_content: str | None = None


class ResponseTool(Struct, kw_only=True):
    """Only functions can be called; of other tools the type is read, to say so."""

    type: _Name
    name: _ToolName | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    """Accepted; arguments are as the model writes them."""


class NamedResponseTool(Struct):
    type: Literal["function"]
    name: _Name


class TextForm(Struct, forbid_unknown_fields=True):
    format: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class Reasoning(Struct, forbid_unknown_fields=True):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    """For the model's template, as `reasoning_effort`."""
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None


class ResponseStreamOptions(Struct, forbid_unknown_fields=True):
    include_obfuscation: bool = False
    """Accepted: padding against traffic analysis; none is added."""


class ResponseBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """`None` is as good as absent, as clients send both."""

    model: _Name
    input: str | Annotated[list[InputItem], Meta(max_length=MAX_ITEMS)]
    instructions: str | None = None
    """A system message ahead of the input."""
    max_output_tokens: Annotated[int, Meta(ge=1, le=MAX_TOKENS)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    include: list[_Name] | None = None
    text: TextForm | None = None
    reasoning: Reasoning | None = None
    tools: Annotated[list[ResponseTool], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedResponseTool | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: ResponseStreamOptions | None = None
    service_tier: ServiceTier | None = None
    truncation: Literal["auto", "disabled"] | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: _Name | None = None
    conversation: Any = None
    prompt: Any = None
    max_tool_calls: int | None = None
    """Accepted and not used, as is what follows to `user`: it is about tools that OpenAI runs, and its own caches."""
    prompt_cache_key: _Name | None = None
    prompt_cache_retention: _Name | None = None
    safety_identifier: _Name | None = None
    user: _Name | None = None
    metadata: dict[str, str] | None = None
    """Given back with the answer."""
    top_k: Annotated[int, Meta(ge=0, lt=1 << 24)] | None = None
    """This, and what follows, as for chats."""
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=100)] | None = None
    seed: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None
    stop: _Stop | Annotated[list[_Stop], Meta(max_length=MAX_STOPS)] | None = None
    chat_template_kwargs: TemplateArguments | None = None
    cache_salt: CacheSalt | None = None
