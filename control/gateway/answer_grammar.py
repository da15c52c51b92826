"""Grammars that an answer is to obey, of what a client asks: llguidance's form of Lark, in which engines take them."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agents.messages.bounds import MAX_GRAMMAR
from control.gateway.api_error import bad_request, unsupported
from control.gateway.bodies import GenerationBody, StructuredOutputs

_MOST_REASON = 500
"""Characters of what is wrong with a schema."""
STRUCTURED = "structured_outputs"
"""Parameter of vLLM's API."""
_SHARED = ("$defs", "definitions")
"""Members of a schema that references name from its root."""


def format_grammar(response_format: Mapping[str, Any] | None) -> str:
    """Of a `response_format`; empty: text. Raises ApiError."""
    kind = "text" if response_format is None else response_format.get("type")
    if response_format is None or kind == "text":
        return ""
    if kind == "json_object":
        return _json({"type": "object"})
    if kind != "json_schema":
        raise unsupported("response_format", "its `type` is one of text, json_object and json_schema")
    about = response_format.get("json_schema")
    schema = about.get("schema") if isinstance(about, dict) else None
    if not isinstance(schema, dict):
        raise bad_request("`response_format.json_schema.schema` must be a JSON schema, an object", "response_format")
    return _json(schema)


def structured_grammar(asked: StructuredOutputs | None) -> str:
    """Of vLLM's `structured_outputs`; empty: text. Raises ApiError."""
    if asked is None:
        return ""
    given = [name for name in asked.__struct_fields__ if getattr(asked, name) not in (None, False)]
    if len(given) != 1:
        every = ", ".join(asked.__struct_fields__)
        raise bad_request(f"`{STRUCTURED}` has one of {every}; this has {len(given)} of them", STRUCTURED)
    if asked.regex is not None:
        return f"start: /{_in_slashes(asked.regex)}/"
    if asked.choice is not None:
        return "start: " + " | ".join(map(json.dumps, asked.choice))
    schema: Any = {"type": "object"} if asked.json is None else asked.json
    if isinstance(schema, str):
        try:
            schema = msgspec.json.decode(schema)
        except (msgspec.DecodeError, RecursionError) as error:
            raise bad_request(f"`{STRUCTURED}.json` is no JSON: {error}", STRUCTURED) from None
    if not isinstance(schema, dict):
        raise bad_request(f"`{STRUCTURED}.json` must be a JSON schema, an object", STRUCTURED)
    return _json(schema)


def check_form(body: GenerationBody, *, is_held: bool) -> None:
    """Raise ApiError for what an answer that is held to a form cannot have."""
    if is_held and (body.ignore_eos or body.min_tokens):
        name = "ignore_eos" if body.ignore_eos else "min_tokens"
        raise unsupported(name, "an answer of a given form ends when that is complete; leave it out")


def either(document: str, calls: str) -> str:
    """Return the grammar of an answer that is a document, or calls: each a grammar that begins with `start: `."""
    first, _, rest = calls.removeprefix("start: ").partition("\n")
    return f"start: document | calls\ndocument: {document.removeprefix('start: ')}\ncalls: {first}\n{rest}"


def call_schema(tools: Sequence[Mapping[str, Any]], arguments: str) -> dict[str, Any]:
    """The schema of a call of one of these tools, as an object with a name and `arguments`. Raises ApiError where two
    of them mean different things by the same definition."""
    shared: dict[str, dict[str, Any]] = {}
    calls = []
    for tool in tools:
        parameters = dict(tool["function"].get("parameters") or {"type": "object"})
        for member in _SHARED:
            for name, definition in dict(parameters.pop(member, None) or {}).items():
                if shared.setdefault(member, {}).setdefault(name, definition) != definition:
                    raise bad_request(f"`tools`: two of them define {name}, each in its own way; rename one", "tools")
        members = {"name": {"const": tool["function"]["name"]}, arguments: parameters}
        calls.append(
            {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}
        )
    return {"anyOf": calls, **shared}


async def check_grammar(grammar: str, param: str) -> None:
    """Raises ApiError for a grammar that no engine could follow. On a thread: a schema may be large."""
    if len(grammar) > MAX_GRAMMAR:
        raise bad_request(f"`{param}`: {len(grammar)} characters of schema are more than {MAX_GRAMMAR}", param)
    wrong = await asyncio.get_running_loop().run_in_executor(None, _fault, grammar)
    if wrong:
        raise bad_request(f"`{param}`: no grammar can hold this schema: {wrong[:_MOST_REASON]}", param)


def _fault(grammar: str) -> str:
    """What is wrong with a grammar; empty: nothing."""
    from llguidance import LLMatcher

    return str(LLMatcher.validate_grammar(grammar, None)).strip()


def _in_slashes(regex: str) -> str:
    """Write a regular expression between slashes, on one line."""
    escaped = re.sub(r"(\\.)|/", lambda found: found[1] or r"\/", regex, flags=re.DOTALL)
    return escaped.replace("\\\n", "\\n").replace("\n", "\\n").replace("\r", "\\r")


def _json(schema: Mapping[str, Any]) -> str:
    return f"start: %json {json.dumps(schema)}"
