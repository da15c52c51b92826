"""Formats of answers by the marks that a model's chat template teaches it."""

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

from control.gateway.answer_formats.bare_calls import BareCalls
from control.gateway.answer_formats.harmony import Harmony
from control.gateway.answer_formats.listed_calls import ListedCalls
from control.gateway.answer_formats.parsed import AnswerParser
from control.gateway.answer_formats.tagged_calls import TaggedCalls

_SHORT_ID = 9
"""Characters of a call's id in Mistral's templates, which refuse others."""


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    name: str
    marks: tuple[str, ...]
    """A template that has one of these is of this format."""
    parser: Callable[[Collection[str]], AnswerParser]
    """Made with the names of the tools."""
    shows_marks: bool = False
    """Marks are special tokens, which text of an answer does not show otherwise."""
    is_constant: bool = False
    """Answers have it whether there are tools or not."""
    has_short_ids: bool = False
    calls_grammar: str = ""
    """Grammar of an answer that is calls, with `{call}` for the schema of one and `{more}` behind the first; empty:
    answers of this format are not held to calls."""
    arguments: str = "arguments"
    """What a call names them."""

    def grammar_of_calls(self, schema: str, *, is_parallel: bool) -> str:
        """`schema`: of a call, as JSON."""
        more = "more*" if is_parallel else ""
        return self.calls_grammar.replace("{more}", more).replace("{call}", schema)

    def call_id(self) -> str:
        return secrets.token_hex(5)[:_SHORT_ID] if self.has_short_ids else f"call_{secrets.token_hex(12)}"


_FORMATS = (
    AnswerFormat("harmony", ("<|channel|>",), lambda _: Harmony(), shows_marks=True, is_constant=True),
    AnswerFormat("mistral", ("[TOOL_CALLS]",), lambda _: ListedCalls(), shows_marks=True, has_short_ids=True),
    AnswerFormat(
        "llama",
        ("<|python_tag|>", '{"name": function name, "parameters"'),
        BareCalls,
        shows_marks=True,
        calls_grammar='start: call {more}\nmore: "; " call\ncall: %json {call}',
        arguments="parameters",
    ),
    AnswerFormat(
        "hermes",
        ("<tool_call>",),
        lambda _: TaggedCalls(),
        calls_grammar=(
            'start: tagged {more}\nmore: "\\n" tagged\ntagged: "<tool_call>\\n" call "\\n</tool_call>"\n'
            "call: %json {call}"
        ),
    ),
)
_OTHERS = ("<function=", "<arg_key>", "<｜tool▁calls▁begin｜>", "<|tool_calls_section_begin|>", "<minimax:tool_call>")
"""Marks of formats that are not read here, some of which use tags of the formats above too."""

KNOWN_FORMATS = tuple(each.name for each in _FORMATS)


def format_of(template: str) -> AnswerFormat | None:
    """Find the format of a model with this chat template; None: it teaches none that is known here."""
    if any(mark in template for mark in _OTHERS):
        return None
    return next((each for each in _FORMATS if any(mark in template for mark in each.marks)), None)
