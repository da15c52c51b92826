"""Request bodies as JSON: types and bounds of every field; an unknown field is an error, not a surprise later."""

from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from agents.messages.bounds import MAX_BIASES, MAX_TOKENS, MAX_TOP_LOGPROBS
from control.gateway.api_error import ApiError, bad_request
from control.gateway.service_tier import ServiceTier

MAX_STOPS = 16
MAX_STOP_CHARACTERS = 256
MAX_STOP_TOKENS = 32
"""Beside those of the model."""
MAX_CHOICES = 128
"""Answers to one request: prompts times `n`."""
MAX_TEXT_CHOICES = 1024
"""Texts of which an answer is one."""
MAX_TEMPLATE_ARGUMENTS = 64
MAX_TOOLS = 128
"""OpenAI's own limit."""
_MAX_NAME = 200
"""Length of a field's name that a client made up, in the answer that refuses it."""

_Stop = Annotated[str, Meta(min_length=1, max_length=MAX_STOP_CHARACTERS)]
_TokenCount = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)]
_Name = Annotated[str, Meta(max_length=512)]
_TokenId = Annotated[int, Meta(ge=0, lt=1 << 24)]
_LogitBias = Annotated[dict[_TokenId, Annotated[float, Meta(ge=-100, le=100)]], Meta(max_length=MAX_BIASES)]
_TokenList = Annotated[list[int], Meta(max_length=MAX_TOKENS)]
TemplateArguments = Annotated[dict[_Name, Any], Meta(max_length=MAX_TEMPLATE_ARGUMENTS)]


CacheSalt = Annotated[str, Meta(min_length=1, max_length=256)]


class StreamOptions(Struct, forbid_unknown_fields=True):
    include_usage: bool = False
    include_obfuscation: bool = False
    """Accepted: padding against traffic analysis; none is added."""


class StructuredOutputs(Struct, kw_only=True, forbid_unknown_fields=True):
    """Form of an answer, as vLLM has it: one of these."""

    json: dict[str, Any] | str | None = None
    """A schema, or one as text."""
    json_object: bool | None = None
    regex: Annotated[str, Meta(min_length=1)] | None = None
    choice: (
        Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=MAX_TEXT_CHOICES)] | None
    ) = None


class GenerationBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Fields that both endpoints have. `None` is as good as absent, as clients send both."""

    model: _Name
    max_tokens: _TokenCount | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, lt=1 << 24)] | None = None
    """Not OpenAI's, but of every open engine."""
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    """This, and what follows to `ignore_eos`, as in vLLM."""
    repetition_penalty: Annotated[float, Meta(gt=0, le=100)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=MAX_TOKENS)] | None = None
    stop_token_ids: Annotated[list[_TokenId], Meta(max_length=MAX_STOP_TOKENS)] | None = None
    ignore_eos: bool | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None
    seed: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None
    stop: _Stop | Annotated[list[_Stop], Meta(max_length=MAX_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    logit_bias: _LogitBias | None = None
    """By token; names of JSON objects are strings, whose digits count."""
    user: _Name | None = None
    """Accepted and not used, as is `metadata`."""
    metadata: dict[str, str] | None = None
    service_tier: ServiceTier | None = None
    cache_salt: CacheSalt | None = None
    """As in vLLM, as is what follows."""
    structured_outputs: StructuredOutputs | None = None


class CompletionBody(GenerationBody, kw_only=True, forbid_unknown_fields=True):
    prompt: str | Annotated[list[int | str | _TokenList], Meta(max_length=MAX_TOKENS)]
    logprobs: Annotated[int, Meta(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None


class EmbeddingBody(Struct, kw_only=True, forbid_unknown_fields=True):
    model: _Name
    input: str | Annotated[list[int | str | _TokenList], Meta(max_length=MAX_TOKENS)]
    encoding_format: Literal["float", "base64"] | None = None
    """None is float."""
    dimensions: Annotated[int, Meta(ge=1, le=MAX_TOKENS)] | None = None
    user: _Name | None = None
    """Accepted and not used."""
    service_tier: ServiceTier | None = None
    """This and `cache_salt` as for completions."""
    cache_salt: CacheSalt | None = None


class ImageUrl(Struct):
    url: str
    detail: Literal["auto", "low", "high"] | None = None


class InputAudio(Struct):
    data: str
    """Base64."""
    format: _Name


class SpokenAs(Struct):
    """How an answer is to be spoken."""

    voice: _Name | dict[str, Any]
    format: Literal["wav", "aac", "mp3", "flac", "opus", "pcm16"]


class ContentPart(Struct):
    """Has the field that its type names."""

    type: _Name
    text: str | None = None
    image_url: str | ImageUrl | None = None
    input_audio: InputAudio | None = None


class CalledFunction(Struct):
    name: _Name
    arguments: str
    """JSON."""


class Called(Struct):
    """A call in an assistant's earlier answer."""

    function: CalledFunction
    id: _Name | None = None
    type: str | None = None


class ToolFunction(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.\-]{1,64}\Z")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    """Accepted; arguments are as the model writes them."""


class Tool(Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    function: ToolFunction


class NamedFunction(Struct):
    name: _Name


class NamedTool(Struct):
    type: Literal["function"]
    function: NamedFunction


class Message(Struct, kw_only=True, forbid_unknown_fields=True):
    role: _Name
    content: str | list[ContentPart] | None = None
    name: _Name | None = None
    refusal: str | None = None
    """Field of an assistant's earlier answer, as clients send answers back, and as `audio` accepted when empty."""
    tool_calls: Annotated[list[Called], Meta(max_length=MAX_TOOLS)] | None = None
    function_call: Any = None
    tool_call_id: _Name | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    """Another name of `reasoning`."""
    audio: Any = None
    annotations: list[Any] | None = None


class ChatBody(GenerationBody, kw_only=True, forbid_unknown_fields=True):
    messages: Annotated[list[Message], Meta(min_length=1, max_length=4096)]
    max_completion_tokens: _TokenCount | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    response_format: dict[str, Any] | None = None
    tools: Annotated[list[Tool], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    functions: list[Any] | None = None
    function_call: Any = None
    modalities: Annotated[list[_Name], Meta(max_length=16)] | None = None
    """What the answer is of: text, or also a sound or picture; None: text."""
    audio: SpokenAs | None = None
    store: bool | None = None
    chat_template_kwargs: TemplateArguments | None = None
    """Names that the model's template knows, such as `enable_thinking`."""


class TokenizeBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Either `prompt` or `messages`."""

    model: _Name
    prompt: str | None = None
    messages: Annotated[list[Message], Meta(min_length=1, max_length=4096)] | None = None
    add_special_tokens: bool = True
    """Put around a prompt what the model wants around one; a template has done it for messages."""
    add_generation_prompt: bool = True
    return_token_strs: bool = False
    tools: Annotated[list[Tool], Meta(max_length=MAX_TOOLS)] | None = None
    chat_template_kwargs: TemplateArguments | None = None


class DetokenizeBody(Struct, kw_only=True, forbid_unknown_fields=True):
    model: _Name
    tokens: _TokenList


Body = TypeVar("Body", bound=Struct)


@cache
def _decoder(kind: type[Body]) -> msgspec.json.Decoder[Body]:
    return msgspec.json.Decoder(kind)


def read_body(raw: bytes, kind: type[Body]) -> Body:
    """Raises ApiError 400 that names the parameter."""
    try:
        body: Body = _decoder(kind).decode(raw)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"The body is not valid JSON: {error}", code="invalid_json") from None
    return body


def _invalid(message: str) -> ApiError:
    """msgspec says what is wrong and where: "Expected `int`, got `str` - at `$.n`", or "at `key` in `$...`"."""
    what, _, path = message.partition(" - at `")
    where = path.rpartition("$")[2].rstrip("`").lstrip(".")[:_MAX_NAME]
    if "unknown field" in what:
        field = what.rsplit("`", 2)[-2][:_MAX_NAME]
        return bad_request(f"Unrecognized request argument supplied: {field}", field, "unknown_parameter")
    if "missing required field" in what:
        field = what.rsplit("`", 2)[-2]
        return bad_request(f"Missing required parameter: `{field}`", field, "missing_required_parameter")
    subject = f"Invalid value for `{where}`: " if where else "Invalid body: "
    return bad_request(subject + what[:1].lower() + what[1:], where.split("[")[0].split(".")[0] or None)
