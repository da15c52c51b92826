"""A model's chat template: Jinja from a model's files, so it runs in a sandbox."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from control.gateway.answer_formats.formats import format_of

ChatMessage = dict[str, Any]
"""role and content, and what else a template knows of a message: name, tool_calls, tool_call_id, reasoning_content."""

RESERVED = frozenset(
    ("messages", "add_generation_prompt", "tools", "documents", "bos_token", "eos_token", "pad_token", "unk_token")
)
"""Names that every template knows, and no client's argument may have."""
_NONE: Mapping[str, Any] = {}


class ChatTemplateError(ValueError):
    """The template refuses these messages, or cannot be used."""


def _raise(message: str) -> NoReturn:
    """What templates call to say that a conversation is not as they want it."""
    raise TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter of Hugging Face's templates: Jinja's own writes for HTML. Models were trained on its spaces."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _environment() -> ImmutableSandboxedEnvironment:
    """Environment with the names and white-space rules that Hugging Face chat templates are written for."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = time.strftime  # gpt-oss has it say the date
    environment.filters["tojson"] = _to_json
    return environment


class ChatTemplate:
    def __init__(self, source: str, special_tokens: dict[str, str] | None = None) -> None:
        """`special_tokens`: what `bos_token`, `eos_token` and the like stand for. Raises ChatTemplateError."""
        environment = _environment()
        try:
            self._template = environment.from_string(source)
            self.takes_tools = "tools" in find_undeclared_variables(environment.parse(source))
        except TemplateError as error:
            raise ChatTemplateError(f"chat template: {error}") from error
        self.answer_format = format_of(source)
        """How the model writes calls; None: it is not known."""
        self._names = special_tokens or {}

    @classmethod
    def missing(cls) -> "ChatTemplate":
        """Template of a model without one: any conversation is refused, with the reason."""
        return cls("{{ raise_exception('this model has no chat template; use /v1/completions') }}")

    def render(
        self,
        messages: Sequence[ChatMessage],
        arguments: Mapping[str, Any] = _NONE,
        tools: Sequence[Any] = (),
        *,
        opens_answer: bool = True,
    ) -> str:
        """The conversation as one text that ends where the assistant's answer begins, or, unless `opens_answer`, with
        its last message. `arguments`: more names for the template, none of them `RESERVED`. `tools`: JSON objects."""
        names = {
            **arguments,
            **self._names,
            "messages": list(messages),
            "tools": list(tools) or None,
            "documents": None,
            "add_generation_prompt": opens_answer,
        }
        try:
            return self._template.render(names)
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise ChatTemplateError(str(error)) from error
