"""Several answers to one request, and several prompts in one: the official client against a real gateway."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.control.gateway.world import MODEL, World, world_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(tmp_path_factory.mktemp("choices"), {"e1": ()}) as world:
        yield world


PROMPTS = ["ab", "cde", "fghi"]


def echoed(prompt: str, count: int) -> str:
    return (prompt * count)[:count]


def test_each_prompt_has_its_answers_in_order_and_counts_once(world: World) -> None:
    whole = world.client().completions.create(model=MODEL, prompt=PROMPTS, n=2, max_tokens=9)
    assert [choice.index for choice in whole.choices] == list(range(6))
    assert [choice.text for choice in whole.choices] == [echoed(prompt, 9) for prompt in PROMPTS for _ in range(2)]
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens) == (9, 54, 63)


def test_prompts_of_tokens_are_prompts_too(world: World) -> None:
    client = world.client()
    texts = client.completions.create(model=MODEL, prompt=PROMPTS, max_tokens=6)
    http = world.http()
    with http:
        tokens = [http.post("/tokenize", json={"model": MODEL, "prompt": text}).json()["tokens"] for text in PROMPTS]
    as_tokens = client.completions.create(model=MODEL, prompt=tokens, max_tokens=6)
    assert as_tokens.choices == texts.choices


def test_streamed_answers_carry_their_number_and_end_one_by_one(world: World) -> None:
    stream = world.client().completions.create(
        model=MODEL, prompt=PROMPTS, n=2, max_tokens=40, stream=True, stream_options={"include_usage": True}
    )
    texts, ends = [""] * 6, [0] * 6
    *chunks, last = stream
    for chunk in chunks:
        (choice,) = chunk.choices
        assert not ends[choice.index], "nothing comes behind an answer's end"
        texts[choice.index] += choice.text
        ends[choice.index] += choice.finish_reason == "length"
    assert texts == [echoed(prompt, 40) for prompt in PROMPTS for _ in range(2)]
    assert ends == [1] * 6
    assert last.usage is not None
    assert (last.choices, last.usage.prompt_tokens, last.usage.completion_tokens) == ([], 9, 240)


def test_a_chat_streams_a_role_for_each_answer(world: World) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "n": 3, "max_tokens": 8}
    client = world.client()
    whole = client.chat.completions.create(**asked)
    assert [choice.message.content for choice in whole.choices] == ["user:hi\n"] * 3
    texts, roles = [""] * 3, [0] * 3
    for chunk in client.chat.completions.create(**asked, stream=True):
        (choice,) = chunk.choices
        roles[choice.index] += choice.delta.role == "assistant"
        texts[choice.index] += choice.delta.content or ""
    assert (texts, roles) == (["user:hi\n"] * 3, [1] * 3)


def test_log_probabilities_of_each_answer_begin_at_its_own_text(world: World) -> None:
    whole = world.client().completions.create(model=MODEL, prompt=["xy", "z"], max_tokens=3, logprobs=1)
    for choice, text in zip(whole.choices, ("xyx", "zzz"), strict=True):
        assert choice.logprobs is not None
        assert choice.logprobs.tokens == list(text)
        assert choice.logprobs.text_offset == [0, 1, 2]


def test_a_stop_string_ends_one_answer_and_not_the_others(world: World) -> None:
    whole = world.client().completions.create(model=MODEL, prompt=["abSTOP", "cd"], max_tokens=30, stop="STOP")
    assert [(choice.text, choice.finish_reason) for choice in whole.choices] == [
        ("ab", "stop"),
        (echoed("cd", 30), "length"),
    ]
    assert whole.usage is not None
    assert whole.usage.completion_tokens == len("abSTOP") + 30
    world.wait_for('medley_gateway_instance_running{instance="e1"}', 0)


def test_tokens_that_end_an_answer_may_be_named_and_the_first_ones_are_not_searched(world: World) -> None:
    client = world.client()
    with world.http() as http:
        (stop,) = http.post("/tokenize", json={"model": MODEL, "prompt": "c"}).json()["tokens"]
    named = client.completions.create(
        model=MODEL, prompt="abcd", max_tokens=9, extra_body={"stop_token_ids": [stop], "ignore_eos": True}
    )
    assert (named.choices[0].text, named.choices[0].finish_reason) == ("ab", "stop")
    late = client.completions.create(model=MODEL, prompt="abcd", max_tokens=20, stop="c", extra_body={"min_tokens": 4})
    assert (late.choices[0].text, late.choices[0].finish_reason) == ("abcdab", "stop")


def test_one_prompt_that_cannot_be_fails_all_of_them(world: World) -> None:
    with pytest.raises(openai.BadRequestError, match="context"):
        world.client().completions.create(model=MODEL, prompt=["a", "x" * 20_000], max_tokens=1)
    world.wait_for("medley_gateway_open_calls", 0)


def test_a_client_that_leaves_frees_all_answers(world: World) -> None:
    with world.http() as http:
        body = {"model": MODEL, "prompt": PROMPTS, "n": 3, "max_tokens": 19_000, "stream": True}
        with http.stream("POST", "/v1/completions", json=body) as answer:
            assert next(answer.iter_lines()).startswith("data: ")
    world.wait_for("medley_gateway_open_calls", 0)
    world.wait_for('medley_gateway_instance_running{instance="e1"}', 0)
    world.wait_for('medley_gateway_instance_kv_blocks_free{instance="e1"}', 1 << 20)
    assert "Traceback" not in world.gateway_log


def test_limits_of_a_key_count_every_answer(tmp_path: Path) -> None:
    world = World(tmp_path, key={"requests_per_minute": 5})
    try:
        world.echo("e1")
        world.publish()
        world.start_gateway()
        world.wait_ready()
        client = world.client()
        first = client.completions.with_raw_response.create(model=MODEL, prompt=["a", "b"], n=2, max_tokens=1)
        assert first.headers["x-ratelimit-remaining-requests"] == "1"
        with pytest.raises(openai.RateLimitError):
            client.completions.create(model=MODEL, prompt="a", n=2, max_tokens=1)
        assert client.completions.create(model=MODEL, prompt="a", max_tokens=1).choices[0].text == "a"
    finally:
        world.stop()


def test_text_and_tokens_go_there_and_back(world: World) -> None:
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "né"}]}
    with world.http() as http:
        text = http.post("/tokenize", json={"model": MODEL, "prompt": "né", "return_token_strs": True}).json()
        assert (text["count"], text["max_model_len"], len(text["tokens"]), len(text["token_strs"])) == (3, 20_000, 3, 3)
        back = http.post("/detokenize", json={"model": MODEL, "tokens": text["tokens"]}).json()
        assert back == {"prompt": "né"}
        rendered = http.post("/tokenize", json=chat).json()["tokens"]
        assert http.post("/detokenize", json={"model": MODEL, "tokens": rendered}).json()["prompt"] == "user:né\n"
        for path, body in (
            ("/tokenize", {"model": MODEL}),
            ("/tokenize", {**chat, "prompt": "both"}),
            ("/tokenize", {**chat, "model": "ecco"}),
            ("/detokenize", {"model": MODEL, "tokens": [10**6]}),
        ):
            assert http.post(path, json=body).json()["error"]["type"] == "invalid_request_error"
    assert httpx.post(f"{world.url}/tokenize", json={"model": MODEL, "prompt": "a"}, timeout=60).status_code == 401
