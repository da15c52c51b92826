"""Calls and reasoning in the text of each family, whatever pieces it comes in."""

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from control.gateway.answer_formats.formats import _FORMATS, format_of
from control.gateway.answer_formats.parsed import Parsed
from control.gateway.chat_template import ChatTemplate

FORMATS = {each.name: each for each in _FORMATS}
Calls = list[tuple[str, str]]
HARMONY = "<|channel|>analysis<|message|>Hm <b>.<|end|><|start|>assistant"


def read(name: str, text: str, step: int) -> tuple[str, str, Calls]:
    parser = FORMATS[name].parser({"f", "g"})
    parsed = Parsed()
    for at in range(0, len(text), step):
        parsed += parser.push(text[at : at + step])
    parsed += parser.flush()
    calls: Calls = []
    for delta in parsed.calls:
        if delta.index == len(calls):
            calls.append(("", ""))
        was_name, was_arguments = calls[delta.index]
        calls[delta.index] = was_name + delta.name, was_arguments + delta.arguments
    return parsed.content, parsed.reasoning, calls


@pytest.mark.parametrize(
    ("name", "text", "content", "calls"),
    [
        (
            "hermes",
            'Hm.<tool_call>\n{"name": "f", "arguments": {"a": "}</tool_call>", "b": [1, {}]}}\n</tool_call>\n'
            '<tool_call>{"arguments": {"x": 1}, "name": "g"}</tool_call>',
            "Hm.",
            [("f", '{"a": "}</tool_call>", "b": [1, {}]}'), ("g", '{"x": 1}')],
        ),
        ("hermes", "a < b, and <tool", "a < b, and <tool", []),
        ("hermes", "<tool_call>no JSON</tool_call> x", "<tool_call>no JSON</tool_call> x", []),
        ("hermes", '<tool_call>{"a": 1}</tool_call>', '<tool_call>{"a": 1}</tool_call>', []),
        ("hermes", '<tool_call>{"name": "f"}</tool_call>', "", [("f", "{}")]),
        ("hermes", '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}', "", [("f", '{"a": 1}')]),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1', "", [("f", '{"a": 1')]),
        (
            "llama",
            '{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}',
            "",
            [("f", '{"a": 1}'), ("g", "{}")],
        ),
        ("llama", '<|python_tag|>{"name": "f", "parameters": {"a": 1}}', "", [("f", '{"a": 1}')]),
        ("llama", '{"name": "Bob", "age": 3} is JSON', '{"name": "Bob", "age": 3} is JSON', []),
        ("llama", 'Say {"name": "f"}', 'Say {"name": "f"}', []),
        (
            "mistral",
            '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]',
            "",
            [("f", '{"a": 1}'), ("g", "{}")],
        ),
        (
            "mistral",
            'Hm. [TOOL_CALLS]f[ARGS]{"a": {"b": "}"}}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{}',
            "Hm. ",
            [("f", '{"a": {"b": "}"}}'), ("g", "{}")],
        ),
        ("mistral", "plain [TOO", "plain [TOO", []),
        ("harmony", HARMONY + "<|channel|>final<|message|>Hello <|wor", "Hello <|wor", []),
        (
            "harmony",
            HARMONY + '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}',
            "",
            [("f", '{"a": 1}')],
        ),
        (
            "harmony",
            HARMONY + "<|channel|>commentary<|message|>I will.<|end|><|start|>assistant to=functions.f<|channel|>"
            "commentary json<|message|>{}<|call|><|start|>assistant<|channel|>commentary to=functions.g<|message|>{}",
            "I will.",
            [("f", "{}"), ("g", "{}")],
        ),
    ],
)
def test_text_is_read_the_same_in_whatever_pieces_it_comes(name: str, text: str, content: str, calls: Calls) -> None:
    for step in (1, 2, 3, 7, len(text)):
        reasoning = "Hm <b>." if name == "harmony" else ""
        assert read(name, text, step) == (content, reasoning, calls), f"in pieces of {step}"


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ tools }}return a json object within <tool_call></tool_call> XML tags", "hermes"),
        ('{{ tools }}Respond in the format {"name": function name, "parameters": dictionary}', "llama"),
        ("{{ tools }}[AVAILABLE_TOOLS]{{ x }}[TOOL_CALLS]", "mistral"),
        ("<|start|>assistant<|channel|>final<|message|>", "harmony"),
        ("<tool_call><function=x>", None),
        ("{{ messages }}", None),
    ],
)
def test_a_template_says_its_format(template: str, name: str | None) -> None:
    found = format_of(template)
    assert (found and found.name) == name


def test_a_template_is_filled_in_as_transformers_does() -> None:
    source = (
        "{% if tools is not none %}{{ tools | tojson }}{{ tools[0] | tojson(indent=4) }}{% endif %}{{ documents }}"
        "{% for m in messages %}{% if m.role == 'skip' %}{% continue %}{% endif %}{{ m['role'] }}:{{ m.content }}\n"
        "{%- for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}\n{% endfor %}"
        "{% if add_generation_prompt %}{{ strftime_now('%Y') }}{{ style | default('plain') }}{% endif %}"
    )
    tools = [{"type": "function", "function": {"name": "f", "description": "Ä <b>"}}]
    messages = [
        {"role": "user", "content": "hi & bye"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1, "a": "é"}}}],
        },
    ]
    for chosen, arguments in ((tools, {"style": "x"}), ([], {})):
        theirs, _ = render_jinja_template(
            [messages], tools=chosen or None, chat_template=source, add_generation_prompt=True, **arguments
        )
        assert [ChatTemplate(source).render(messages, arguments, chosen)] == theirs
