"""`medley graphs` shows known models, and others by their config.json."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from control.cli.main import app
from templates_lib.graphs.catalogue import graph_facts, graph_names


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["graphs", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["graphs", *arguments])
    assert result.exit_code == 1
    return result.stderr


def test_every_known_model_is_listed() -> None:
    listed = json.loads(run("list", "-o", "json"))
    assert [row["graph"] for row in listed] == list(graph_names())
    assert all(name in run("list") for name in graph_names())


def test_a_graph_is_shown_with_components_edges_and_types() -> None:
    shown = json.loads(run("show", "qwen2.5-omni-7b", "-o", "json"))
    assert yaml.safe_load(run("show", "qwen2.5-omni-7b", "-o", "yaml")) == shown
    assert [each["component"] for each in shown["components"]] == ["vision", "hearing", "thinker", "talker", "vocoder"]
    assert shown["edges"][0]["bytes_per_unit"] == 7168
    assert shown["request_types"]["text-to-audio"] == ["thinker", "talker", "vocoder"]
    table = run("show", "qwen2.5-omni-7b")
    assert "image-audio-text-to-audio" in table
    assert "audio seconds" in table


def test_a_config_of_ones_own_is_read(tmp_path: Path) -> None:
    config = graph_facts("whisper-tiny.en")["config"]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | {"decoder_layers": 8}))
    larger = json.loads(run("show", str(path), "-o", "json"))["weight_gib"]
    assert larger > json.loads(run("show", "whisper-tiny.en", "-o", "json"))["weight_gib"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[]", "root"),
        ("{", "JSON"),
        ('{"model_type": "llama"}', "model_type"),
        ('{"model_type": "whisper", "d_model": NaN}', "d_model"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_a_file_that_is_no_such_config_is_refused_with_its_name(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    message = refused("show", str(path))
    assert str(path) in message
    assert named in message


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    assert "'qwen-image'" in refused("show", "qwen-imag")
    assert "no-such.json" in refused("show", "/nowhere/no-such.json")
