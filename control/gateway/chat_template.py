"""A model's chat template: Jinja from a model's files, so it runs in a sandbox."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

ChatMessage = dict[str, str]
"""role and content, and name where given."""

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


def _to_json(value: Any, indent: int | None = None) -> str:
    text = msgspec.json.encode(value)
    return (msgspec.json.format(text, indent=indent) if indent else text).decode()


def _environment() -> ImmutableSandboxedEnvironment:
    """Environment with the names and white-space rules that Hugging Face chat templates are written for."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _raise
    environment.filters["tojson"] = _to_json
    return environment


class ChatTemplate:
    def __init__(self, source: str, special_tokens: dict[str, str] | None = None) -> None:
        """`special_tokens`: what `bos_token`, `eos_token` and the like stand for. Raises ChatTemplateError."""
        try:
            self._template = _environment().from_string(source)
        except TemplateError as error:
            raise ChatTemplateError(f"chat template: {error}") from error
        self._names = special_tokens or {}

    @classmethod
    def missing(cls) -> "ChatTemplate":
        """Template of a model without one: any conversation is refused, with the reason."""
        return cls("{{ raise_exception('this model has no chat template; use /v1/completions') }}")

    def render(
        self, messages: Sequence[ChatMessage], arguments: Mapping[str, Any] = _NONE, *, opens_answer: bool = True
    ) -> str:
        """The conversation as one text that ends where the assistant's answer begins, or, unless `opens_answer`, with
        its last message. `arguments`: more names for the template, none of them `RESERVED`."""
        names = {**arguments, **self._names, "messages": list(messages), "add_generation_prompt": opens_answer}
        try:
            return self._template.render(names)
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise ChatTemplateError(str(error)) from error
