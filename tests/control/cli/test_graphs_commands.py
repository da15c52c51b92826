"""`medley graphs` shows known models, and others by their config.json."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from control.cli.main import app
from templates_lib.graphs.catalogue import graph_facts, graph_names
from tests.media_files import exif, picture, wav


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


def test_tokens_of_pictures_and_clips_are_counted() -> None:
    counted = json.loads(run("tokens", "internvl2.5-26b", "--image", "896x896", "--image", "448x440", "-o", "json"))
    assert [(each["tiles"], each["image_tokens"]) for each in counted["images"]] == [(5, 1280), (1, 256)]
    assert counted["images"][0]["grid"] == [2, 2]
    assert "1,280" in run("tokens", "internvl2.5-26b", "--image", "896x896")
    clips = json.loads(run("tokens", "qwen2.5-omni-7b", "--audio", "8", "-o", "json"))["clips"]
    assert clips == [{"seconds": 8.0, "audio_tokens": 200.0}]
    assert "200" in run("tokens", "qwen2.5-omni-7b", "--audio", "8")
    assert "1,280" in run("show", "internvl2.5-26b")


def test_tokens_of_files_are_those_of_what_their_headers_say(tmp_path: Path) -> None:
    (tmp_path / "turned.jpg").write_bytes(picture("JPEG", (100, 500), exif=exif(6)))
    (tmp_path / "clip.wav").write_bytes(wav(bytes(2 * 16_000)))
    asked = ("--image", str(tmp_path / "turned.jpg"), "--audio", str(tmp_path / "clip.wav"))
    counted = json.loads(run("tokens", "qwen2.5-omni-7b", *asked, "-o", "json"))
    assert (counted["images"][0]["width"], counted["images"][0]["height"]) == (500, 100)
    assert counted["clips"] == [{"seconds": 1.0, "audio_tokens": 25.0}]


def test_the_file_beside_a_config_says_how_large_pictures_are_made(tmp_path: Path) -> None:
    config = dict(graph_facts("smolvlm-256m")["config"])
    said = config.pop("preprocessor_config")
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said | {"size": {"longest_edge": 1024}}))
    asked = ("tokens", str(tmp_path / "config.json"), "--image", "640x640", "-o", "json")
    assert json.loads(run(*asked))["images"][0]["tiles"] == 5
    (tmp_path / "preprocessor_config.json").unlink()
    assert json.loads(run(*asked))["images"][0]["tiles"] == 17
    (tmp_path / "preprocessor_config.json").write_text("[")
    assert "preprocessor_config.json" in refused(*asked)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("whisper-tiny.en", "--image", "4x4"), "whisper-tiny.en"),
        (("qwen-image", "--audio", "4"), "qwen-image"),
        (("qwen2.5-vl-7b", "--image", "896"), "896x896"),
        (("qwen2.5-vl-7b", "--image", "-1x5"), "896x896"),
        (("qwen2.5-vl-7b", "--image", "0x5"), "0 by 5"),
        (("qwen2.5-vl-7b", "--image", "4x4000"), "narrow"),
        (("whisper-tiny.en", "--audio", "0"), "--audio"),
        (("whisper-tiny.en", "--audio", "nan"), "--audio"),
        (("whisper-tiny.en", "--audio", "/dev/null"), "--audio"),
        (("whisper-tiny.en", "--audio", __file__), "WAV"),
        (("qwen2.5-vl-7b", "--image", __file__), "PNG"),
        (("whisper-tiny.en",), "--audio"),
    ],
)
def test_what_cannot_be_counted_is_refused(arguments: tuple[str, ...], named: str) -> None:
    assert named in refused("tokens", *arguments)


def test_cells_of_a_model_are_planned_on_a_gpu() -> None:
    shares = ("--share", "image-text-to-text=0.7", "--share", "text-to-text=0.3")
    found = json.loads(run("cells", "qwen2.5-vl-32b", "--gpu", "A100-80", "--largest", "4", *shares, "-o", "json"))
    assert [cell["gpus"] for cell in found["cells"]] == [1, 2, 4]
    for cell in found["cells"]:
        by_type: dict[str, float] = {}
        for path in cell["paths"]:
            by_type[path["request_type"]] = by_type.get(path["request_type"], 0) + path["requests_per_s"]
        assert by_type["image-text-to-text"] == pytest.approx(0.7 * cell["requests_per_s"], rel=1e-4)
    assert found["step_times"] == "estimated"
    assert "vision+language" in run("cells", "qwen2.5-vl-32b", "--gpu", "A100-80", "--largest", "1", *shares)


def test_a_size_that_is_too_small_for_a_model_says_so() -> None:
    table = run("cells", "qwen2.5-vl-32b", "--gpu", "L40S", "--largest", "2")
    assert "too small" in table


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--gpu", "A10"), "A10G"),
        (("--gpu", "L40S", "--largest", "65"), "64"),
        (("--gpu", "L40S", "--share", "image-text-to-txt=1"), "image-text-to-text"),
        (("--gpu", "L40S", "--share", "text-to-text=0.5"), "add up"),
        (("--gpu", "L40S", "--share", "half"), "half"),
    ],
)
def test_cells_that_cannot_be_planned_say_why(arguments: tuple[str, ...], named: str) -> None:
    assert named in refused("cells", "internvl3-38b", *arguments)
