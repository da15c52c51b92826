"""`medley tasks`: those that ship, and what becomes of one's own."""

import json
from pathlib import Path

from typer.testing import CliRunner

from control.cli.main import app

EXAMPLE = Path(__file__).parents[3] / "examples" / "tasks" / "describe.py"


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["tasks", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_task_ships_for_known_graphs() -> None:
    rows = {row["task"]: row["request_types"] for row in json.loads(printed("list", "-o", "json"))}
    assert rows.keys() >= {
        "qwen2.5-vl-7b", "internvl3-38b", "qwen2.5-omni-7b", "qwen3-omni-30b-a3b", "qwen-image", "whisper-tiny.en"
    }  # fmt: skip
    assert rows["qwen-image"] == ["text-to-image"]
    for name in ("qwen2.5-omni-7b", "whisper-tiny.en", "kokoro-82m", "word-pictures"):
        (task,) = json.loads(printed("check", name, "-o", "json"))
        assert task["graph"] == name
        assert {each["request_type"] for each in task["request_types"]} == {*rows[name]}
    assert "whisper-tiny.en" in printed("list")


def test_a_file_is_shown_with_the_paths_of_each_request_type() -> None:
    (task,) = json.loads(printed("check", str(EXAMPLE), "-o", "json"))
    assert (task["task"], task["graph"]) == ("describe", "qwen2.5-vl-7b")
    paths = {each["request_type"]: [path["options"] for path in each["paths"]] for each in task["request_types"]}
    assert paths == {
        "text-to-text": [[["language"]], [["vision", "language"]]],
        "image-text-to-text": [[["vision"], ["language"]], [["vision", "language"]]],
    }
    text = printed("check", f"{EXAMPLE}:describe")
    assert "vision -> language" in text
    assert "vision+language" in text


def test_a_task_that_is_refused_is_an_error_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(EXAMPLE.read_text().replace("request.images)", "request.images, id(request))"))
    result = CliRunner().invoke(app, ["tasks", "check", str(file)])
    assert result.exit_code == 1
    assert str(file) in result.output
    file.write_text("from medley_sdk import workflow\n")
    assert CliRunner().invoke(app, ["tasks", "check", str(file)]).exit_code == 1
    assert CliRunner().invoke(app, ["tasks", "check", "no-such-task"]).exit_code == 1
