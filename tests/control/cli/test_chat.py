"""`medley chat` against a real gateway, whose echo repeats what the model is told."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from control.cli import chat
from control.cli.gateway_client import GatewayClient, NoAnswerError
from control.cli.main import app
from control.cloud.local.members import identified
from control.up.gateway_process import GatewayRecord
from control.up.home import UpHome
from tests.control.gateway.world import API_KEY, MODEL, World, world_of
from tests.http_endpoint import Said, serving

TOLD = "system:Be brief\nuser:Hello\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(tmp_path_factory.mktemp("chat"), {"e1": ()}) as world:
        yield world


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    monkeypatch.setenv("MEDLEY_API_KEY", API_KEY)


def ask(*arguments: str, says: str | None = None) -> Result:
    return CliRunner().invoke(app, ["chat", *arguments], input=says)


def test_one_question_has_one_answer(world: World) -> None:
    asked = ("--gateway", world.url, "--system", "Be brief", "--max-tokens", str(len(TOLD)))
    for answer in (ask(*asked, "-m", "Hello"), ask(MODEL, *asked, says="Hello")):
        assert answer.exit_code == 0, answer.output
        assert answer.stdout == TOLD + "\n"
        assert f"{len(TOLD)} tokens" in answer.stderr
    told = json.loads(ask(*asked, "-m", "Hello", "-o", "json").stdout)
    assert (told["content"], told["usage"]["completion_tokens"]) == (TOLD, len(TOLD))


def test_a_conversation_goes_on_until_it_is_begun_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_is_terminal", lambda: True)
    answers = ask("--gateway", world.url, "--max-tokens", "9", "-o", "json", says="one\ntwo\n\n/new\nthree\n")
    assert answers.exit_code == 0, answers.output
    told = [int(tokens) for tokens in re.findall(r'"prompt_tokens": (\d+)', answers.stdout)]
    first = "user:one\n"
    assert told == [len(first), len(f"{first}assistant:{first}\nuser:two\n"), len("user:three\n")]


def test_a_message_that_is_refused_is_taken_back_and_the_conversation_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "_is_terminal", lambda: True)
    too_long = "x" * 100_000
    answers = ask("--gateway", world.url, "--max-tokens", "9", "-o", "json", says=f"one\n{too_long}\ntwo\n")
    assert answers.exit_code == 0, answers.output
    assert "context" in answers.stderr
    told = [int(tokens) for tokens in re.findall(r'"prompt_tokens": (\d+)', answers.stdout)]
    assert told == [len("user:one\n"), len("user:one\nassistant:user:one\n\nuser:two\n")]


def test_a_key_of_openai_goes_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MEDLEY_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    with serving(lambda _: Said({"data": [{"id": "m"}]})) as endpoint:
        ask("--gateway", endpoint.url, "-m", "Hello")
        home = UpHome(tmp_path / "up")
        home.root.mkdir()
        home.api_key.write_text("of-medley-up\n")
        record = GatewayRecord(identified(os.getpid()), endpoint.url, "127.0.0.1", 0)
        home.gateway_record.write_bytes(msgspec.json.encode(record))
        ask("-m", "Hello")
    keys = [asked.headers.get("authorization") for asked in endpoint.asked]
    assert set(keys) == {None, "Bearer of-medley-up"}


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_does_not_take_the_key_along(status: int) -> None:
    with serving(lambda _: Said({"data": [{"id": "m"}]})) as other:
        with serving(lambda _: Said({}, status, {"location": f"{other.url}/v1/models"})) as endpoint:
            failed = ask("--gateway", endpoint.url, "-m", "Hello")
        assert (failed.exit_code, other.asked) == (1, [])
        assert other.url in failed.stderr


@pytest.mark.parametrize("said", [[], {}, {"data": 5}, {"data": [{"id": 5}]}, {"data": ["m"]}])
def test_other_json_than_a_gateways_is_said_so(said: object) -> None:
    with serving(lambda _: Said(said)) as endpoint:
        failed = ask("--gateway", endpoint.url, "-m", "Hello")
        with pytest.raises(NoAnswerError, match=endpoint.url):
            GatewayClient(endpoint.url, "").ready()
    assert failed.exit_code == 1
    assert endpoint.url in failed.stderr
    assert "unexpected" not in failed.stderr


@pytest.mark.parametrize("event", ["{", "5", "[]", "{}", '{"choices": [{}]}', '{"error": {}}'])
def test_other_events_than_a_gateways_are_said_so(event: str) -> None:
    with (
        serving(lambda _: Said(f"data: {event}\n\n".encode())) as endpoint,
        pytest.raises(NoAnswerError, match=endpoint.url),
    ):
        list(GatewayClient(endpoint.url, "").chat({}))


@pytest.mark.parametrize("status", [200, 400])
def test_what_a_gateway_says_cannot_steer_a_terminal(status: int) -> None:
    said = {"error": {"message": "no \x1b[2J\x1b]0;mine\x07 way", "code": None}}
    body = json.dumps(said).encode() if status == 400 else b"data: " + json.dumps(said).encode() + b"\n\n"
    answers = {"/v1/models": Said({"data": [{"id": "m"}]}), "/v1/chat/completions": Said(body, status)}
    with serving(lambda asked: answers[asked.path]) as endpoint:
        failed = ask("--gateway", endpoint.url, "-m", "Hello")
    assert failed.exit_code == 1
    assert "way" in failed.stderr
    assert failed.stderr.replace("\n", " ").isprintable()


def test_names_that_cannot_be_shown_are_no_models() -> None:
    with serving(lambda _: Said({"data": [{"id": "\x1b[2Jm"}]})) as endpoint:
        failed = ask("--gateway", endpoint.url, "-m", "Hello")
    assert failed.exit_code == 1
    assert failed.stderr.replace("\n", " ").isprintable()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--gateway", "http://127.0.0.1:1"), "127.0.0.1:1"),
        (("--gateway", "localhost"), "http://"),
        ((), "medley up"),
        (("no-such-model", "--gateway", "WORLD"), MODEL),
        (("--gateway", "WORLD", "--max-tokens", "1000000"), "context"),
        (("--gateway", "WORLD", "--api-key", "wrong"), "key"),
    ],
)
def test_what_keeps_an_answer_away_is_said(world: World, arguments: tuple[str, ...], says: str) -> None:
    failed = ask(*(world.url if each == "WORLD" else each for each in arguments), "-m", "Hello")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert says in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "unexpected" not in failed.stderr
