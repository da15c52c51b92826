"""The official client against a real gateway and a real echo scheduler, each a process of its own."""

import asyncio
import json
from collections.abc import Iterator

import httpx
import openai
import pytest

from tests.control.gateway.world import API_KEY, MODEL, World, world_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(tmp_path_factory.mktemp("openai"), {"e1": ()}) as world:
        yield world


def echoed(prompt: str, count: int) -> str:
    return (prompt * (count // len(prompt) + 1))[:count]


def test_models_are_listed_and_found_by_name(world: World):
    client = world.client()
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).created == 1_700_000_000
    with pytest.raises(openai.NotFoundError, match="Did you mean `echo-1`"):
        client.models.retrieve("echo-2")


def test_a_completion_whole_and_streamed_is_the_same_text(world: World):
    client = world.client()
    whole = client.completions.create(model=MODEL, prompt="abc d", max_tokens=23)
    assert whole.choices[0].text == echoed("abc d", 23)
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens) == (5, 23, 28)
    chunks = list(client.completions.create(model=MODEL, prompt="abc d", max_tokens=23, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == echoed("abc d", 23)
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["length"]
    assert all(chunk.usage is None for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_chat_goes_through_the_template_whole_and_streamed(world: World):
    client = world.client()
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]},
    ]
    prompt = "system:be brief\nuser:hi\n"
    whole = client.chat.completions.create(model=MODEL, messages=messages, max_completion_tokens=40)
    assert whole.choices[0].message.content == echoed(prompt, 40)
    assert whole.choices[0].message.role == "assistant"
    options = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=40, stream=True, stream_options=options
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == echoed(prompt, 40)
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 40
    assert chunks[-1].choices == []
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}


def test_characters_of_several_tokens_arrive_whole(world: World):
    prompt = "né你好\U0001f44d"
    count = len(prompt.encode()) * 3
    stream = world.client().completions.create(model=MODEL, prompt=prompt, max_tokens=count, stream=True)
    pieces = [chunk.choices[0].text for chunk in stream]
    assert "".join(pieces) == prompt * 3
    assert "�" not in "".join(pieces)


def test_a_prompt_may_be_text_tokens_or_a_list_of_one(world: World):
    client = world.client()
    as_text = client.completions.create(model=MODEL, prompt=["xyz"], max_tokens=6)
    tokens = client.completions.create(model=MODEL, prompt=[5, 6, 7], max_tokens=6)
    assert as_text.choices[0].text == "xyzxyz"
    assert tokens.usage is not None
    assert tokens.usage.prompt_tokens == 3
    assert client.completions.create(model=MODEL, prompt=[[5, 6, 7]], max_tokens=6).choices == tokens.choices


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_the_answer_and_frees_the_instance(world: World, stream: bool):
    client = world.client()
    options = {"model": MODEL, "prompt": "one two END three ", "max_tokens": 10_000, "stop": ["zzz", "END"]}
    if stream:
        chunks = list(client.completions.create(**options, stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
        reason, usage = chunks[-2].choices[0].finish_reason, chunks[-1].usage
    else:
        whole = client.completions.create(**options)
        text, reason, usage = whole.choices[0].text, whole.choices[0].finish_reason, whole.usage
    assert (text, reason) == ("one two ", "stop")
    assert usage is not None
    assert usage.completion_tokens == len("one two END")
    world.wait_for('medley_gateway_instance_running{instance="e1"}', 0)


def test_a_stop_token_ends_the_answer_and_is_not_shown(world: World):
    answer = world.client().completions.create(model=MODEL, prompt="ab<end>cd", max_tokens=50)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("ab", "stop")
    longer = world.client().completions.create(
        model=MODEL, prompt="ab<end>cd", max_tokens=50, extra_body={"ignore_eos": True}
    )
    assert longer.choices[0].finish_reason == "length"


def test_log_probabilities_where_the_engine_has_them(world: World):
    client = world.client()
    messages = [{"role": "user", "content": "x"}]
    chat = client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=4, logprobs=True, top_logprobs=2
    ).choices[0]
    assert chat.logprobs is not None
    assert chat.logprobs.content is not None
    assert [entry.token for entry in chat.logprobs.content] == list("user")
    assert [entry.token for entry in chat.logprobs.content[0].top_logprobs] == ["u"]
    plain = client.completions.create(model=MODEL, prompt="xyz", max_tokens=3, logprobs=1).choices[0]
    assert plain.logprobs is not None
    assert (plain.logprobs.tokens, plain.logprobs.token_logprobs) == (list("xyz"), [0.0, 0.0, 0.0])
    assert plain.logprobs.text_offset == [0, 1, 2]
    with pytest.raises(openai.BadRequestError, match="at most 5"):
        client.completions.create(model=MODEL, prompt="xyz", logprobs=6)


def test_an_answer_begins_with_its_prompt_where_that_is_asked_for(world: World):
    client = world.client()
    prompts = ["ab", [100, 101, 102]]
    whole = client.completions.create(model=MODEL, prompt=prompts, max_tokens=4, echo=True, n=2)
    sent = [client.completions.create(model=MODEL, prompt=prompt, max_tokens=4).choices[0].text for prompt in prompts]
    texts = ["ab", http_text(world, prompts[1])]
    assert [choice.text for choice in whole.choices] == [texts[n] + sent[n] for n in (0, 0, 1, 1)]
    streamed = ["", ""]
    for chunk in client.completions.create(model=MODEL, prompt=prompts, max_tokens=4, echo=True, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == [texts[n] + sent[n] for n in (0, 1)]


def http_text(world: World, tokens: list[int]) -> str:
    with world.http() as http:
        return http.post("/detokenize", json={"model": MODEL, "tokens": tokens}).json()["prompt"]


def test_embeddings_of_an_engine_that_makes_none_are_refused_with_its_instance(world: World):
    with pytest.raises(openai.BadRequestError) as refused:
        world.client().embeddings.create(model=MODEL, input=["abc", "d"])
    assert refused.value.param == "model"
    assert "e1" in refused.value.message
    with pytest.raises(openai.NotFoundError):
        world.client().embeddings.create(model="echo-2", input="abc")


def test_request_ids_are_the_clients_where_it_has_some(world: World):
    client = world.client()
    given = client.completions.with_raw_response.create(
        model=MODEL, prompt="a", max_tokens=1, extra_headers={"x-request-id": "mine-7"}
    )
    assert given.headers["x-request-id"] == "mine-7"
    assert given.parse().id == "cmpl-mine-7"
    made = client.completions.with_raw_response.create(
        model=MODEL, prompt="a", max_tokens=1, extra_headers={"x-request-id": "bad id \t" + "x" * 300}
    )
    assert made.headers["x-request-id"].startswith("req-")
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model=MODEL, prompt="a", max_tokens=-1)
    assert error.value.request_id is not None


def test_keys_are_asked_for_on_the_api_and_not_on_health(world: World):
    with pytest.raises(openai.AuthenticationError, match="Incorrect API key") as error:
        openai.OpenAI(base_url=f"{world.url}/v1", api_key="wrong", max_retries=0).models.list()
    assert error.value.code == "invalid_api_key"
    with httpx.Client(base_url=world.url, timeout=60) as http:
        assert http.get("/v1/models").status_code == 401
        assert http.get("/healthz").json() == {"status": "ok"}
        assert http.get("/readyz").json() == {"ready": [MODEL], "waiting": [], "problem": ""}
    assert API_KEY not in world.gateway_log


def test_metrics_are_there_in_base_units(world: World):
    metrics = world.metrics()
    assert all(name.startswith("medley_gateway_") for name in metrics)
    for name in ("time_to_first_token_seconds_count", "time_per_output_token_seconds_count", "output_tokens_total"):
        assert metrics[f'medley_gateway_{name}{{model="{MODEL}"}}'] > 0
    assert metrics["medley_gateway_table_version"] == 1


def test_a_client_that_leaves_frees_what_it_held(world: World):
    with world.http() as http:
        body = {"model": MODEL, "prompt": "abc", "max_tokens": 19_000, "stream": True}
        with http.stream("POST", "/v1/completions", json=body) as answer:
            assert next(answer.iter_lines()).startswith("data: ")
    world.wait_for("medley_gateway_open_calls", 0)
    world.wait_for(f'medley_gateway_disconnects_total{{model="{MODEL}"}}', 1)
    world.wait_for('medley_gateway_instance_running{instance="e1"}', 0)
    world.wait_for('medley_gateway_instance_kv_blocks_free{instance="e1"}', 1 << 20)


def test_64_streams_at_once_with_cancels_are_exact_and_leave_nothing(world: World):
    async def one(client: openai.AsyncOpenAI, n: int) -> None:
        prompt = f"stream {n}: "
        stream = await client.completions.create(model=MODEL, prompt=prompt, max_tokens=600, stream=True)
        text = ""
        async for chunk in stream:
            text += chunk.choices[0].text
            if n % 3 == 0 and len(text) > 5 * n:
                await stream.close()
                break
        assert echoed(prompt, 600).startswith(text)
        assert n % 3 == 0 or len(text) == 600

    async def all_of_them() -> None:
        async with openai.AsyncOpenAI(base_url=f"{world.url}/v1", api_key=API_KEY, max_retries=0) as client:
            await asyncio.gather(*(one(client, n) for n in range(64)))

    asyncio.run(all_of_them())
    world.wait_for("medley_gateway_open_calls", 0)
    world.wait_for('medley_gateway_instance_running{instance="e1"}', 0)
    world.wait_for('medley_gateway_instance_kv_blocks_free{instance="e1"}', 1 << 20)
    assert "Traceback" not in world.gateway_log


def test_events_are_as_the_standard_says(world: World):
    with world.http() as http:
        answer = http.post("/v1/completions", json={"model": MODEL, "prompt": "ab", "max_tokens": 3, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(json.loads(event.removeprefix("data: ")) for event in events[:-2])
