"""Prefilled here and decoded there by the torch engine, behind a real gateway: answers that obey what a client asks,
and embeddings."""

import base64
import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import jsonschema
import numpy as np
import openai
import pytest
import torch
from transformers import AutoModel

from bench.text_tables import DECODE, PREFILL
from tests.agents.engines.letter_tokenizer import END, LETTERS, NEWLINE, SPACE, letter_tokenizer
from tests.agents.engines.tiny_models import save_model
from tests.agents.hand_off.fleet import MODEL, QUICK, Fleet
from tests.control.gateway.world import Process

DENSE = {str(token): -100 for token in (SPACE, NEWLINE)}
"""Else random weights put white space between JSON's parts for ever."""
TEMPLATE = "{% if tools %}<tool_call>{{ tools | length }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
SCHEMA = {
    "type": "object",
    "properties": {"side": {"enum": ["left", "right"]}, "steps": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["side", "steps"],
    "additionalProperties": False,
}
EMPTY: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
WALK = {"type": "function", "function": {"name": "walk", "parameters": SCHEMA}}
STOP = {"type": "function", "function": {"name": "stop", "parameters": EMPTY}}


class TextFleet(Fleet):
    """Its model's tokens are letters."""

    def start_gateway(self, *arguments: str) -> None:
        self.keys.save(self.folder / "gateway.key")
        at = ["--port", "0", "--table", str(self.folder / "table.json"), "--key", str(self.folder / "gateway.key")]
        self.gateway = Process("control.gateway", [*at, *arguments], self.folder / "gateway.log")
        for name in self.instances:
            self.wait_for(f'medley_gateway_instance_up{{instance="{name}"}}', 1.0, timeout_s=240)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("forms")
    (folder / "tokenizer").mkdir()
    save_model("qwen3", letter_tokenizer(folder / "tokenizer", TEMPLATE))
    made = TextFleet(folder, folder / "tokenizer")
    try:
        made.add("p1", PREFILL, ((6,), ((1.0,),)))
        made.add("d1", DECODE, ((2, 4), ((1.0,), (1.0,))))
        made.publish()
        made.start_gateway(*QUICK)
        yield made
    finally:
        made.stop()


def asked(**options: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "where to?"}]
    return {"model": MODEL, "messages": messages, "max_tokens": 150, "seed": 5, "logit_bias": DENSE, **options}


def form(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "way", "schema": schema, "strict": True}}


def test_answers_are_documents_of_the_schema_whole_and_streamed(fleet: Fleet) -> None:
    client = fleet.client()
    whole = client.chat.completions.create(**asked(response_format=form(SCHEMA), n=3))
    for choice in whole.choices:
        assert choice.finish_reason == "stop"
        jsonschema.validate(json.loads(choice.message.content or ""), SCHEMA)
    assert len({choice.message.content for choice in whole.choices}) > 1
    texts = [""] * 3
    for chunk in client.chat.completions.create(**asked(response_format=form(SCHEMA), n=3), stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == [choice.message.content for choice in whole.choices]
    anything = client.chat.completions.create(**asked(response_format={"type": "json_object"}, max_tokens=6))
    assert (anything.choices[0].message.content or "").startswith("{")


def test_an_answer_that_has_to_be_a_call_is_one_of_the_tools(fleet: Fleet) -> None:
    client, tools = fleet.client(), {STOP["function"]["name"]: STOP, WALK["function"]["name"]: WALK}  # type: ignore[index]
    for choice in ("required", {"type": "function", "function": {"name": "walk"}}):
        request = asked(tools=[STOP, WALK], tool_choice=choice, parallel_tool_calls=False)
        (answer,) = client.chat.completions.create(**request).choices
        assert answer.finish_reason == "tool_calls"
        (call,) = answer.message.tool_calls or ()
        function = call.function  # type: ignore[union-attr]
        assert choice == "required" or function.name == "walk"
        schema: dict[str, Any] = tools[function.name]["function"]["parameters"]  # type: ignore[index]
        jsonschema.validate(json.loads(function.arguments), schema)


def test_biases_penalties_and_lengths_change_what_is_said(fleet: Fleet) -> None:
    client = fleet.client()

    def said(bias: dict[int, float], **options: Any) -> tuple[str, int]:
        """Text, and how many tokens it has: some have no letter."""
        body = {"prompt": "abc", "max_tokens": 24, "temperature": 0, "logit_bias": bias, **options}
        answer = client.completions.create(model=MODEL, **body)
        return answer.choices[0].text, answer.usage.completion_tokens  # type: ignore[union-attr]

    a, b = LETTERS.index("a"), LETTERS.index("b")
    assert said({a: 100}) == ("a" * 24, 24)
    assert set(said({a: 100, b: 99.0}, presence_penalty=2)[0][:2]) == {"a", "b"}
    assert said({END: 100}) == ("", 0)
    assert said({END: 100}, extra_body={"min_tokens": 7})[1] == 7
    endless = {END: -100.0}
    free = said(endless)
    assert free[1] == 24
    assert said(endless, extra_body={"repetition_penalty": 1.9}) != free
    assert said(endless, temperature=1, seed=3) != free
    assert said(endless, temperature=1, seed=3, extra_body={"min_p": 1.0}) == free


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"response_format": form({"type": "nothing"})}, "response_format"),
        ({"response_format": form({"type": "string", "not": {"const": "x"}})}, "response_format"),
        ({"response_format": form({"enum": ["x" * 70_000]})}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"extra_body": {"structured_outputs": {}}}, "structured_outputs"),
        ({"extra_body": {"structured_outputs": {"regex": "a", "choice": ["b"]}}}, "structured_outputs"),
        ({"extra_body": {"structured_outputs": {"regex": "(("}}}, "structured_outputs"),
        ({"extra_body": {"structured_outputs": {"regex": "a\\"}}}, "structured_outputs"),
        ({"extra_body": {"structured_outputs": {"choice": []}}}, "structured_outputs"),
        ({"extra_body": {"structured_outputs": {"json": "{"}}}, "structured_outputs"),
        ({"extra_body": {"structured_outputs": {"grammar": "start: x"}}}, "grammar"),
        ({"response_format": form(SCHEMA), "extra_body": {"structured_outputs": {"regex": "a"}}}, "structured_outputs"),
        ({"response_format": form(SCHEMA), "extra_body": {"ignore_eos": True}}, "ignore_eos"),
    ],
)
def test_forms_that_no_grammar_can_hold_say_why(fleet: Fleet, change: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        fleet.client().chat.completions.create(**asked(**change))
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("asked_for", "shape"),
    [
        ({"regex": r"\d{2}/(left|right)\n"}, r"\d{2}/(left|right)\n"),
        ({"choice": ['to the "left"', "a/b"]}, r'to the "left"|a/b'),
        ({"json": SCHEMA}, r"\{.*\}"),
    ],
)
def test_completions_and_chats_have_the_form_that_vllm_calls_structured_outputs(
    fleet: Fleet, asked_for: dict[str, Any], shape: str
) -> None:
    client, extra = fleet.client(), {"structured_outputs": asked_for}
    bias = {} if "regex" in asked_for or "choice" in asked_for else {"logit_bias": DENSE}
    plain = client.completions.create(
        model=MODEL, prompt="where?", max_tokens=150, n=2, seed=3, extra_body=extra, **bias
    )
    chat = client.chat.completions.create(**asked(extra_body=extra) | {"logit_bias": bias.get("logit_bias", {})})
    for text in (*(choice.text for choice in plain.choices), chat.choices[0].message.content or ""):
        assert re.fullmatch(shape, text, re.DOTALL), text


def test_an_answer_may_be_a_document_or_a_call_where_both_are_asked_for(fleet: Fleet) -> None:
    client, kinds = fleet.client(), set()
    for seed in range(12):
        both = asked(response_format=form(SCHEMA), tools=[WALK], seed=seed, temperature=2.0)
        message = client.chat.completions.create(**both).choices[0].message
        if message.tool_calls:
            (call,) = message.tool_calls[:1]
            jsonschema.validate(json.loads(call.function.arguments), SCHEMA)
        else:
            jsonschema.validate(json.loads(message.content or ""), SCHEMA)
        kinds.add(bool(message.tool_calls))
    assert kinds == {True, False}


TEXTS = ["turn left", "x", "and then sixty steps to the right, past the old mill by the river"]
"""The last one takes several steps."""


def hidden_states(fleet: Fleet, text: str) -> torch.Tensor:
    """(tokens, hidden size) behind the last norm, as transformers has them."""
    model = AutoModel.from_pretrained(fleet.checkpoint, dtype=torch.float32).eval()
    with torch.inference_mode():
        return model(torch.tensor([[LETTERS.index(letter) for letter in text]])).last_hidden_state[0]


def unit(vector: Any) -> Any:
    return np.asarray(vector, np.float32) / np.linalg.norm(vector)


def embedded(fleet: Fleet, given: Any, **options: Any) -> list[Any]:
    answer = fleet.client().embeddings.create(model=MODEL, input=given, **options)
    assert [each.index for each in answer.data] == list(range(len(answer.data)))
    return [np.asarray(each.embedding, np.float32) for each in answer.data]


def test_embeddings_are_the_states_of_last_tokens_as_transformers_has_them(fleet: Fleet) -> None:
    answer = fleet.client().embeddings.create(model=MODEL, input=TEXTS, encoding_format="float")
    for text, each in zip(TEXTS, answer.data, strict=True):
        assert np.allclose(each.embedding, unit(hidden_states(fleet, text)[-1]), atol=1e-4)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(map(len, TEXTS))
    in_base64 = embedded(fleet, TEXTS)  # what the client asks for where nothing is said
    assert np.allclose(in_base64, [each.embedding for each in answer.data], atol=1e-5)
    as_tokens = [[LETTERS.index(letter) for letter in text] for text in TEXTS]
    assert np.allclose(embedded(fleet, as_tokens), in_base64, atol=1e-5)
    (short,) = embedded(fleet, TEXTS[0], dimensions=8)
    assert np.allclose(short, unit(in_base64[0][:8]), atol=1e-6)


def test_texts_that_begin_alike_share_blocks_and_get_the_same_state(fleet: Fleet) -> None:
    first, again = (embedded(fleet, [TEXTS[2]])[0] for _ in range(2))
    assert np.allclose(first, again, atol=1e-5)


def test_embeddings_are_means_where_the_files_of_a_model_say_so(fleet: Fleet) -> None:
    mean = shutil.copytree(fleet.tokenizer, fleet.folder / "mean", ignore=shutil.ignore_patterns("*.safetensors"))
    modules = [
        {"idx": n, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling")))
    ]
    (mean / "modules.json").write_text(json.dumps(modules))
    (mean / "1_Pooling").mkdir()
    flags = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    (mean / "1_Pooling" / "config.json").write_text(json.dumps(flags))
    fleet.tokenizer, before = mean, fleet.tokenizer
    try:
        fleet.publish()
        fleet.wait_for("medley_gateway_table_version", fleet.version)
        for text, vector in zip(TEXTS, embedded(fleet, TEXTS), strict=True):
            assert np.allclose(vector, hidden_states(fleet, text).mean(0), atol=1e-4), "and no length of one"
    finally:
        fleet.tokenizer = before
        fleet.publish()
        fleet.wait_for("medley_gateway_table_version", fleet.version)


@pytest.mark.parametrize(
    ("asked_for", "param"),
    [
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": [[10**6]]}, "input"),
        ({"input": "a" * 257}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": 10**5}, "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "pooling": "max"}, "pooling"),
    ],
)
def test_embeddings_that_cannot_be_made_are_refused_by_name(
    fleet: Fleet, asked_for: dict[str, Any], param: str
) -> None:
    answer = fleet.http().post("/v1/embeddings", json={"model": MODEL, **asked_for})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_raw_base64_is_little_endian_fp32(fleet: Fleet) -> None:
    asked_for = {"model": MODEL, "input": "x", "encoding_format": "base64"}
    (data,) = fleet.http().post("/v1/embeddings", json=asked_for).json()["data"]
    assert np.allclose(np.frombuffer(base64.b64decode(data["embedding"]), "<f4"), embedded(fleet, "x")[0], atol=1e-5)
