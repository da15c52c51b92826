"""`medley chat` against a real gateway, whose echo repeats what the model is told."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from control.cli import chat
from control.cli.main import app
from tests.control.gateway.world import API_KEY, MODEL, World, world_of

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
