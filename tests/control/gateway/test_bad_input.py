"""What no client should send: each gets its own error object, and the gateway serves on."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control.gateway.world import API_KEY, MODEL, World, world_of

ROOM = 19_995
"""Tokens of the longest prompt; its context has 20,000."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(tmp_path_factory.mktemp("bad"), {"e1": ()}, prompt_room_tokens=ROOM) as world:
        yield world


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[World]:
    """Requests that are sent in earnest may take longer on a busy machine: it gets none."""
    with world_of(tmp_path, {}, "--header-timeout-s", "1", "--body-timeout-s", "1") as world:
        yield world


@pytest.fixture(autouse=True)
def _serves_on(world: World) -> Iterator[None]:
    yield
    assert world.client().completions.create(model=MODEL, prompt="still ", max_tokens=6).choices[0].text == "still "
    assert "Traceback" not in world.gateway_log


CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
PLAIN = {"model": MODEL, "prompt": "hi"}
VOICE = {"voice": "alloy", "format": "wav"}


def test_unknown_models_and_urls_and_methods(world: World):
    with world.http() as http:
        unknown = http.post("/v1/completions", json={**PLAIN, "model": "ecco-1"})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
        assert "Did you mean `echo-1`?" in unknown.json()["error"]["message"]
        assert http.post("/v1/audio/translations", json=PLAIN).json()["error"]["code"] == "unknown_url"
        wrong = http.get("/v1/completions")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
        assert http.delete("/v1/models").status_code == 405


@pytest.mark.parametrize("raw", [b"", b"{", b"nonsense", b'{"model": "x"', b"\xff\xfe", b"[" * 100_000, b'"\\ud800"'])
def test_malformed_json(world: World, raw: bytes):
    with world.http() as http:
        answer = http.post("/v1/chat/completions", content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("path", "change", "param"),
    [
        ("completions", {"max_tokens": "many"}, "max_tokens"),
        ("completions", {"max_tokens": 0}, "max_tokens"),
        ("completions", {"max_tokens": 1e300}, "max_tokens"),
        ("completions", {"temperature": 3}, "temperature"),
        ("completions", {"top_p": 0}, "top_p"),
        ("completions", {"prompt": None}, "prompt"),
        ("completions", {"prompt": []}, "prompt"),
        ("completions", {"prompt": ""}, "prompt"),
        ("completions", {"prompt": ["a", ""]}, "prompt"),
        ("completions", {"prompt": ["a", 5]}, "prompt"),
        ("completions", {"prompt": [[5], []]}, "prompt"),
        ("completions", {"prompt": ["a"] * 129}, "prompt"),
        ("completions", {"prompt": ["a"] * 43, "n": 3}, "prompt"),
        ("completions", {"prompt": [-1]}, "prompt"),
        ("completions", {"prompt": [10**6]}, "prompt"),
        ("completions", {"prompt": [2**70]}, "prompt"),
        ("completions", {"n": 0}, "n"),
        ("completions", {"n": 129}, "n"),
        ("completions", {"best_of": 3}, "best_of"),
        ("completions", {"echo": True, "logprobs": 0}, "echo"),
        ("completions", {"suffix": "x"}, "suffix"),
        ("completions", {"logit_bias": {"five": 1}}, "logit_bias"),
        ("completions", {"logit_bias": {"5": 101}}, "logit_bias"),
        ("completions", {"logit_bias": {"100000": 1}}, "logit_bias"),
        ("completions", {"logit_bias": {str(n): 1 for n in range(2000)}}, "logit_bias"),
        ("completions", {"presence_penalty": 2.1}, "presence_penalty"),
        ("completions", {"repetition_penalty": 0}, "repetition_penalty"),
        ("completions", {"min_p": 2}, "min_p"),
        ("completions", {"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
        ("completions", {"stop_token_ids": [-1]}, "stop_token_ids"),
        ("completions", {"stop_token_ids": list(range(100))}, "stop_token_ids"),
        ("completions", {"stop": ["s"] * 10_000}, "stop"),
        ("completions", {"stop": "s" * 10_000}, "stop"),
        ("completions", {"stop": [""]}, "stop"),
        ("completions", {"stop": 5}, "stop"),
        ("completions", {"stream_options": {"include_usage": True}}, "stream_options"),
        ("completions", {"stream": "yes"}, "stream"),
        ("completions", {"seed": "x"}, "seed"),
        ("completions", {"colour": "red"}, "colour"),
        ("completions", {"model": None}, "model"),
        ("chat/completions", {"messages": []}, "messages"),
        ("chat/completions", {"messages": "hi"}, "messages"),
        ("chat/completions", {"messages": [{"content": "hi"}]}, "role"),
        ("chat/completions", {"messages": [{"role": "king", "content": "hi"}]}, "messages"),
        ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ("chat/completions", {"top_logprobs": 3}, "top_logprobs"),
        ("chat/completions", {"logprobs": True, "top_logprobs": 99}, "top_logprobs"),
        ("chat/completions", {"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ("chat/completions", {"response_format": {"type": "json_object"}}, None),
        ("chat/completions", {"response_format": {"type": "yaml"}}, "response_format"),
        ("chat/completions", {"modalities": ["audio"]}, "modalities"),
        ("chat/completions", {"modalities": ["text", "audio"], "audio": VOICE}, "modalities"),
        ("chat/completions", {"modalities": ["text", "smell"]}, "modalities"),
        ("chat/completions", {"modalities": ["text", "image", "audio"]}, "modalities"),
        ("chat/completions", {"modalities": ["text"], "audio": VOICE}, "audio"),
        ("chat/completions", {"modalities": ["text", "audio"], "audio": {"voice": "alloy"}}, "format"),
        ("chat/completions", {"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
        ("chat/completions", {"chat_template_kwargs": {f"n{n}": 1 for n in range(65)}}, "chat_template_kwargs"),
    ],
)
def test_wrong_values_name_the_parameter(world: World, path: str, change: dict[str, Any], param: str | None):
    with world.http() as http:
        answer = http.post(f"/v1/{path}", json={**(CHAT if "chat" in path else PLAIN), **change})
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["param"] == param
    assert error["message"]
    assert len(answer.content) < 2000


PIXEL = "data:image/png;base64,iVBORw0KGgo="


def said_to(world: World, parts: list[dict[str, Any]], path: str = "/v1/chat/completions", model: str = MODEL) -> Any:
    with world.http() as http:
        return http.post(path, json={"model": model, "messages": [{"role": "user", "content": parts}]})


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
def test_what_a_model_does_not_read_is_recognised_and_refused(world: World, path: str):
    for part, names in (
        ({"type": "image_url", "image_url": {"url": PIXEL}}, "images"),
        ({"type": "image_url", "image_url": {"url": PIXEL, "detail": "high"}}, "images"),
        ({"type": "image_url", "image_url": PIXEL}, "images"),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "images"),
        ({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}, "audio"),
    ):
        parts = [{"type": "text", "text": "what is it?"}, part]
        answer = said_to(world, parts, path)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (400, "unsupported_modality", "messages")
        assert "messages[0].content[1]" in error["message"]
        assert names in error["message"]
        assert "iVBOR" not in answer.text
        assert said_to(world, parts, path, "ecco").status_code == 404
    with world.http() as http:
        (model,) = http.get("/v1/models").json()["data"]
    assert (model["input_modalities"], model["output_modalities"]) == (["text"], ["text"])


def test_a_part_that_makes_no_sense_is_refused(world: World):
    for part in (
        {"type": "image_url"},
        {"type": "image_url", "image_url": 5},
        {"type": "image_url", "image_url": {"address": PIXEL}},
        {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": PIXEL, "detail": "lowest"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg=="}},
        {"type": "input_audio", "input_audio": "UklGRg=="},
        {"type": "input_audio"},
        {"type": "video_url", "video_url": {"url": PIXEL}},
        {"type": "x" * 100_000},
        {"type": "text"},
        {"type": "text", "text": 5},
    ):
        answer = said_to(world, [part])
        assert answer.status_code == 400, part
        assert answer.json()["error"]["message"]
        assert len(answer.content) < 2000
    many = said_to(world, [{"type": "image_url", "image_url": {"url": "data:,"}}] * 1025)
    assert (many.status_code, many.json()["error"]["code"]) == (400, "too_many_images")


def test_parts_of_text_are_one_text(world: World):
    counted = said_to(world, [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "/tokenize").json()
    assert counted["count"] == len("user:ab\n")


def test_an_endless_name_is_not_sent_back(world: World):
    with world.http() as http:
        answer = http.post("/v1/completions", json={**PLAIN, "z" * 100_000: 1})
        unknown = http.post("/v1/completions", json={**PLAIN, "model": "m" * 500})
    assert (answer.status_code, unknown.status_code) == (400, 404)
    assert len(answer.content) + len(unknown.content) < 2000


@pytest.mark.parametrize("missing", ["model", "prompt"])
def test_what_is_missing_is_named(world: World, missing: str):
    with world.http() as http:
        answer = http.post("/v1/completions", json={k: v for k, v in PLAIN.items() if k != missing})
    assert answer.json()["error"]["message"] == f"Missing required parameter: `{missing}`"


@pytest.mark.parametrize(("prompt", "max_tokens"), [("x" * 20_000, 1), ("x" * 19_990, 100), ("x" * 500_000, 1)])
def test_a_prompt_longer_than_the_context(world: World, prompt: str, max_tokens: int):
    with world.http() as http:
        answer = http.post("/v1/completions", json={**PLAIN, "prompt": prompt, "max_tokens": max_tokens})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert "20000 tokens" in answer.json()["error"]["message"]


def test_a_prompt_that_no_instance_has_room_for_is_refused_as_models_say(world: World):
    with world.http() as http:
        (model,) = http.get("/v1/models").json()["data"]
        most = model["max_model_len"]
        answer = http.post("/v1/completions", json={**PLAIN, "prompt": "x" * (most + 1), "max_tokens": 1})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
        assert f"{most} tokens" in answer.json()["error"]["message"]
        fits = http.post("/v1/completions", json={**PLAIN, "prompt": "x" * most, "max_tokens": 1})
        assert (most, fits.status_code) == (ROOM, 200)


def test_a_huge_body_is_refused_before_it_is_read_and_while_it_is(world: World):
    with world.http() as http:
        said = http.post("/v1/completions", content=b"x" * (9 << 20))
        assert (said.status_code, said.json()["error"]["code"]) == (413, "request_too_large")
    chunked = (
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer " + API_KEY.encode() + b"\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )
    with _connect(world) as client:
        client.sendall(chunked)
        block = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        try:
            for _ in range(200):
                client.sendall(block)
        except OSError:
            return  # it hung up while we were sending
        assert b" 413 " in _read(client)


def test_a_client_that_dribbles_its_headers_is_cut_off(impatient: World):
    with _connect(impatient) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nx-slow: ")
        assert b" 408 " in _read(client)
    with _connect(impatient) as silent:
        assert b" 408 " in _read(silent)


def test_a_client_that_dribbles_its_body_is_cut_off(impatient: World):
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {API_KEY}\r\ncontent-length: 900\r\n\r\n{{"
    )
    with _connect(impatient) as client:
        client.sendall(head.encode())
        answer = _read(client)
    assert b" 408 " in answer
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]["code"] == "timeout"


def test_a_client_that_piles_up_requests_on_one_connection_is_cut_off(world: World):
    one = f"GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {API_KEY}\r\n\r\n".encode()
    last = one.replace(b"host: x", b"host: x\r\nconnection: close")
    with _connect(world) as client:
        client.sendall(one * 5 + last)
        assert _read(client).count(b"HTTP/1.1 200") == 6
    with _connect(world) as client:
        client.sendall(one * 500)
        assert _read(client).count(b"HTTP/1.1 200") < 20


def test_headers_without_end_are_cut_off(world: World):
    with _connect(world) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        try:
            for n in range(2000):
                client.sendall(b"x-%d: " % n + b"y" * 1000 + b"\r\n")
        except OSError:
            return
        assert b" 431 " in _read(client)


def test_what_is_not_http_is_refused(world: World):
    with _connect(world) as client:
        client.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert b" 400 " in _read(client)


def _connect(world: World) -> socket.socket:
    host, port = world.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=120)


def _read(client: socket.socket) -> bytes:
    """Until the other side hangs up."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)
