"""/v1/responses: the official client against a real gateway, whose echo says what a model would."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from control.gateway.answer_formats.harmony import Harmony
from control.gateway.api_error import ApiError
from control.gateway.bodies import read_body
from control.gateway.chat_template import ChatTemplate
from control.gateway.generation_params import Conversation
from control.gateway.response_body import ResponseBody
from control.gateway.response_items import ResponseItems
from control.gateway.response_request import in_own_words, params_of
from tests.control.gateway.test_answer_formats import HARMONY
from tests.control.gateway.test_tools import CALL, OTHER, TEMPLATE
from tests.control.gateway.world import MODEL, World, world_of

WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "Weather of a place",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    "strict": True,
}
CLOCK = {"type": "function", "name": "clock"}
SHOWN = (
    "{% if messages[0].role == 'system' %}<{{ messages[0].content }}>{% endif %}"
    "{% for m in messages if m.role != 'system' %}"
    "{% if m.reasoning %}({{ m.reasoning }}){% endif %}{{ m.role[0] }}:{{ m.content }}"
    "{% for call in m.tool_calls %}!{{ call.function.name }}{{ call.id }}{% endfor %}"
    "{% if m.tool_call_id %}={{ m.tool_call_id }}{% endif %};{% endfor %}"
)
"""Shows what the model is told."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Answers what the last message says."""
    folder = tmp_path_factory.mktemp("responses")
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer" / "chat_template.jinja").write_text(TEMPLATE)
    with world_of(folder, {"e1": ("--step-s", "0.001")}) as world:
        yield world


def asked(says: str, **options: Any) -> dict[str, Any]:
    return {"model": MODEL, "input": f"{says}<end>", "max_output_tokens": 2000, **options}


def checked(response: Response) -> Response:
    """The client takes what it gets as it is; this reads it again by the letter."""
    sent = response.model_dump(exclude_unset=True, warnings=False)
    sent["usage"]["input_tokens_details"].setdefault("cache_write_tokens", 0)
    return Response.model_validate(sent)


def test_an_answer_is_a_message_with_usage(world: World) -> None:
    response = checked(world.client().responses.create(**asked("Good morning", metadata={"a": "b"})))
    assert (response.status, response.output_text, response.store) == ("completed", "Good morning", False)
    assert (response.id[:5], response.model, response.metadata) == ("resp_", MODEL, {"a": "b"})
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (13, 12)
    assert response.usage.total_tokens == 25
    cut = checked(world.client().responses.create(**asked("Good morning", max_output_tokens=4)))
    assert (cut.status, cut.output_text) == ("incomplete", "Good")
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"


def test_a_stream_tells_of_each_item_and_adds_up_to_the_whole(world: World) -> None:
    client, request = world.client(), asked(f"Let me see.{CALL}\n{OTHER}", tools=[WEATHER, CLOCK])
    whole = checked(client.responses.create(**request))
    events = list(client.responses.create(**request, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-1] == "response.completed"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    arguments = ["", "", ""]
    for event in events:
        if event.type == "response.function_call_arguments.delta":
            arguments[event.output_index] += event.delta
    with client.responses.stream(**request) as stream:
        final = stream.get_final_response()
    for response in (whole, final, events[-1].response):
        message, first, second = response.output
        assert message.content[0].text == text == "Let me see."
        assert [json.loads(first.arguments), json.loads(second.arguments)] == [{"place": 'Zürich "}</tool_call>"'}, {}]
        assert [first.arguments, second.arguments] == arguments[1:]
        assert (first.name, second.name) == ("weather", "clock")
        assert first.call_id != second.call_id
        assert {item.status for item in response.output} == {"completed"}


def test_log_probabilities_come_with_the_text(world: World) -> None:
    include = ["message.output_text.logprobs"]
    response = world.client().responses.create(**asked("Hi", include=include, top_logprobs=1))
    entries = response.output[0].content[0].logprobs  # type: ignore[union-attr]
    assert [(entry.token, entry.logprob, len(entry.top_logprobs)) for entry in entries] == [("H", 0, 1), ("i", 0, 1)]
    events = world.client().responses.create(**asked("Hi", include=include), stream=True)
    told = [entry.token for e in events if e.type == "response.output_text.delta" for entry in e.logprobs]
    assert told == ["H", "i"]


CONVERSATION = [
    {
        "role": "user",
        "content": [{"type": "input_text", "text": "What is the "}, {"type": "input_text", "text": "weather?"}],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "weather",
        "arguments": "{}",
        "status": "completed",
    },
    {"type": "function_call", "call_id": "c2", "name": "clock", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "noon"}]},
    {"role": "assistant", "content": "It rains."},
    {"role": "user", "content": "Thanks"},
]
TOLD = "<Be brief>u:What is the weather?;(hm)a:I look.!weatherc1!clockc2;t:rain=c1;t:noon=c2;a:It rains.;u:Thanks;"


def test_items_are_the_messages_of_a_chat() -> None:
    asked = {"model": MODEL, "input": CONVERSATION, "instructions": "Be brief"}
    (prompt,) = params_of(read_body(json.dumps(asked).encode(), ResponseBody)).prompts
    assert isinstance(prompt, Conversation)
    assert ChatTemplate(SHOWN).render(prompt.messages) == TOLD


def test_an_answer_goes_back_as_it_came(world: World) -> None:
    client, request = world.client(), asked(f"Let me see.{CALL}", tools=[WEATHER])
    first = client.responses.create(**request)
    call = first.output[1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain<end>"}  # type: ignore[union-attr]
    items = [{"role": "user", "content": "weather?"}, *first.output, result]
    second = client.responses.create(**request | {"input": items})
    assert second.output_text.endswith("weather?Let me see.rain"), "the echo says all that the model is told"
    assert [item.type for item in second.output] == ["message", "function_call", "message"]


def test_reasoning_is_an_item_of_its_own() -> None:
    text = HARMONY + "<|channel|>final<|message|>Yes.<|end|><|start|>assistant<|channel|>commentary to=functions.f"
    parser, items = Harmony(), ResponseItems(lambda: "call_1", is_parallel=True)
    events = [event for letter in f'{text}<|message|>{{"a": 1}}' for event in items.take(parser.push(letter), [])]
    events += [*items.take(parser.flush(), []), *items.end("incomplete")]
    reasoning, message, call = items.items
    assert (reasoning["type"], reasoning["content"][0]["text"]) == ("reasoning", "Hm <b>.")
    assert (message["content"][0]["text"], call["name"], call["arguments"]) == ("Yes.", "f", '{"a": 1}')
    assert [item["status"] for item in items.items] == ["completed", "completed", "incomplete"]
    told = "".join(event["delta"] for event in events if event["type"] == "response.reasoning_text.delta")
    assert told == "Hm <b>."
    opened = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
    closed = [event["output_index"] for event in events if event["type"] == "response.output_item.done"]
    assert opened == closed == [0, 1, 2]


def test_pictures_are_named_by_the_items_that_they_came_in() -> None:
    picture = {"type": "input_image", "image_url": "data:,", "detail": "high"}
    seen = {"type": "function_call_output", "call_id": "c1", "output": [picture]}
    both = {"role": "user", "content": [{"type": "input_text", "text": "these"}, picture, picture]}
    call = CONVERSATION[3]
    asked = {"model": MODEL, "input": [call, call | {"content": [picture]}, seen, both]}
    (prompt,) = params_of(read_body(json.dumps(asked).encode(), ResponseBody)).prompts
    assert isinstance(prompt, Conversation)
    assert [each.where for each in prompt.media] == ["input[2].output[0]", "input[3].content[1]", "input[3].content[2]"]
    kinds = [[part["type"] for part in message["content"]] for message in prompt.messages[1:]]
    assert kinds == [["image"], ["text", "image", "image"]]


@pytest.mark.parametrize(
    ("options", "param", "unsaid"),
    [
        (
            {"input": [{"type": "function_call", "call_id": "c1", "name": "clock", "arguments": "[]"}]},
            "input",
            "messages",
        ),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": None}}}, "text.format", "response_format"),
    ],
)
def test_what_is_wrong_is_named_as_the_client_named_it(options: dict[str, Any], param: str, unsaid: str) -> None:
    body = {"model": "m", "input": "hi"} | options
    with pytest.raises(ApiError) as refused:
        params_of(read_body(json.dumps(body).encode(), ResponseBody))
    said = in_own_words(refused.value)
    assert said.param == param
    assert param in said.message or "input" in said.message
    assert unsaid not in said.message


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"store": True}, "store"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"truncation": "auto"}, "truncation"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]}, "input"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"include": ["web_search_call.results"]}, "include"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"extra_body": {"modalities": ["text"]}}, "modalities"),
    ],
)
def test_what_is_not_here_is_refused_by_its_name(world: World, options: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        world.client().responses.create(**asked("x") | options)
    assert refused.value.param == param
    assert len(refused.value.message) > len(param)


def test_no_response_is_kept(world: World) -> None:
    response = world.client().responses.create(**asked("x"))
    with pytest.raises(openai.NotFoundError, match="not kept"):
        world.client().responses.retrieve(response.id)
