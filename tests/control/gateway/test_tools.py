"""Calls of tools: the official client against a real gateway, whose echo says what a model would."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.control.gateway.world import MODEL, World, world_of

TEMPLATE = (
    "{% if tools and messages | length > 1 %}{{ tools | tojson }}{% endif %}"
    "{% for message in messages %}{{ message.content }}"
    "{% for call in message.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}{% endfor %}"
)
"""Ends as its last message does, so that this is what the echo answers."""
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a place",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        "strict": True,
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "strict": True}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"place": "Zürich \\"}</tool_call>\\""}}\n</tool_call>'
OTHER = '<tool_call>{"name": "clock", "arguments": {}}</tool_call>'


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("tools")
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer" / "chat_template.jinja").write_text(TEMPLATE)
    with world_of(folder, {"e1": ("--step-s", "0.001")}) as world:
        yield world


def asked(says: str, **options: Any) -> dict[str, Any]:
    """What is asked of an echo that is to say something."""
    messages = [{"role": "user", "content": f"{says}<end>"}]
    return {"model": MODEL, "messages": messages, "tools": [WEATHER, CLOCK], "max_tokens": 2000, **options}


def test_calls_are_told_apart_from_text(world: World) -> None:
    (choice,) = world.client().chat.completions.create(**asked(f"Let me see.{CALL}\n{OTHER}")).choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me see.")
    calls = choice.message.tool_calls
    assert calls is not None
    assert [call.function.name for call in calls] == ["weather", "clock"]
    assert [json.loads(call.function.arguments) for call in calls] == [{"place": 'Zürich "}</tool_call>"'}, {}]
    assert len({call.id for call in calls}) == 2


def test_streamed_calls_add_up_to_the_same(world: World) -> None:
    client, request = world.client(), asked(f"Let me see.{CALL}\n{OTHER}", n=2)
    whole = client.chat.completions.create(**request)
    with client.chat.completions.stream(**request) as stream:
        pieces = [event.arguments_delta for event in stream if event.type == "tool_calls.function.arguments.delta"]
        streamed = stream.get_final_completion()
    assert len(pieces) > 4, "arguments come as the model writes them"
    for ours, theirs in zip(streamed.choices, whole.choices, strict=True):
        assert (ours.finish_reason, ours.message.content) == (theirs.finish_reason, theirs.message.content)
        said, expected = ours.message.tool_calls, theirs.message.tool_calls
        assert said is not None
        assert expected is not None
        assert [c.function.arguments for c in said] == [c.function.arguments for c in expected]
        assert [c.function.name for c in said] == [c.function.name for c in expected]


def test_one_call_alone_where_they_may_not_be_parallel(world: World) -> None:
    request = asked(CALL + OTHER, parallel_tool_calls=False)
    (choice,) = world.client().chat.completions.create(**request).choices
    assert [call.function.name for call in choice.message.tool_calls or ()] == ["weather"]
    assert choice.message.content is None


@pytest.mark.parametrize("tools", [{"tools": openai.NOT_GIVEN}, {"tool_choice": "none"}])
def test_without_tools_text_is_text(world: World, tools: dict[str, Any]) -> None:
    (choice,) = world.client().chat.completions.create(**asked(CALL, **tools)).choices
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == (CALL, None, "stop")


def test_an_answer_cut_off_in_a_call_says_so(world: World) -> None:
    (choice,) = world.client().chat.completions.create(**asked(CALL, max_tokens=60)).choices
    assert choice.finish_reason == "length"
    assert [call.function.name for call in choice.message.tool_calls or ()] == ["weather"]


def test_a_conversation_goes_on_behind_a_call(world: World) -> None:
    client = world.client()
    first = client.chat.completions.create(**asked(OTHER)).choices[0].message
    messages = [
        {"role": "user", "content": "what time?"},
        first.model_dump(),
        {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "noon<end>"},  # type: ignore[index]
    ]
    answer = client.chat.completions.create(**asked("", messages=messages, tools=[CLOCK], logprobs=True))
    shown = '[{"type": "function", "function": {"name": "clock"}}]what time?'
    assert (answer.choices[0].message.content or "").startswith(shown)
    (call,) = answer.choices[0].message.tool_calls or ()
    assert (call.function.name, call.function.arguments) == ("clock", "{}")  # type: ignore[union-attr]
    assert answer.choices[0].logprobs is not None


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tools": [{"type": "function"}]}, "function"),
        ({"tools": [{"type": "function", "function": {"name": "no spaces"}}]}, "tools"),
        ({"tools": [CLOCK, CLOCK]}, "tools"),
        ({"tools": [CLOCK] * 129}, "tools"),
        ({"tool_choice": "required"}, None),
        ({"tool_choice": {"type": "function", "function": {"name": "clock"}}}, None),
        ({"tool_choice": {"type": "function", "function": {"name": "nobody"}}}, "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"messages": [{"role": "user", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]}]}, "messages"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}]},
            "messages",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "[]"}}]}]},
            "messages",
        ),
        ({"functions": [{"name": "f"}]}, "functions"),
    ],
)
def test_what_cannot_be_asked_names_the_parameter(world: World, change: dict[str, Any], param: str | None) -> None:
    with world.http() as http:
        error = http.post("/v1/chat/completions", json={**asked("hi"), **change}).json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
