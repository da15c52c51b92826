"""What no client should bring beside text, asked of a real gateway whose table has a model that sees and hears.

No instance encodes yet: what is as it should be is refused last, with a 503.
"""

import asyncio
import base64
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.text_tables import WHOLE, member, text_model
from control.gateway.api_error import ApiError
from control.gateway.bodies import ChatBody, read_body
from control.gateway.body_budget import BodyBudget
from control.gateway.chat_request import chat_params
from control.gateway.counts import Counts
from control.gateway.media.intake import MediaIntake
from control.gateway.media.reading import reading_of
from control.gateway.model_entry import ModelEntry
from control.gateway.published import MediaTerms, PublishedModel
from control.gateway.tokenizer_source import load_tokenizer
from templates_lib.graphs.catalogue import graph_facts
from templates_lib.graphs.component import Modality
from templates_lib.media.image_header import ImageLimits
from templates_lib.media.wav_header import AudioLimits
from tests.control.gateway.world import API_KEY, MODEL, World, byte_tokenizer, world_of
from tests.media_files import animation, exif, picture, png, wav

TERMS = MediaTerms(graph_facts("qwen2.5-omni-7b")["config"], max_images=2, max_clips=1)
Part = dict[str, Any]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("media")
    with world_of(folder, {"e1": ()}, "--image-host", "localhost", media=TERMS) as world:
        yield world


def image(data: bytes, kind: str = "image/png") -> Part:
    return url(f"data:{kind};base64,{base64.b64encode(data).decode()}")


def url(address: str) -> Part:
    return {"type": "image_url", "image_url": {"url": address}}


def sound(data: bytes, kind: str = "wav") -> Part:
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": kind}}


SMALL, WIDE, SECOND = picture("PNG"), png(3584, 3584, rows=1), wav(bytes(2 * 16_000))
ROWS: dict[str, tuple[list[Part], int, str]] = {
    "image over 20 MiB": ([image(SMALL + bytes(20 << 20))], 413, "image_too_large"),
    "over 40 Mpixel by its header": ([image(png(40_001, 1000, rows=1))], 400, "image_too_many_pixels"),
    "truncated": ([image(SMALL[:100])], 400, "invalid_image"),
    "damaged": ([image(SMALL[:16] + bytes(8) + SMALL[24:])], 400, "invalid_image"),
    "wrong magic": ([image(b"hello, world")], 400, "invalid_image"),
    "empty": ([image(b"")], 400, "invalid_image"),
    "another format than claimed": ([image(picture("JPEG"))], 400, "invalid_image"),
    "base64 that is none": ([url("data:image/png;base64,iVBO*RwKGgo=")], 400, "invalid_image"),
    "base64 with an end inside": ([url("data:image/png;base64,iVBORw==iVBORw==")], 400, "invalid_image"),
    "data that is no base64": ([url("data:image/png,hello")], 400, "invalid_image"),
    "data without a comma": ([url("data:" + "x" * 5000)], 400, "invalid_image"),
    "narrower than the model reads": ([image(png(4, 4000, rows=1))], 400, "invalid_image"),
    "bmp": ([image(picture("BMP"), "image/bmp")], 400, "unsupported_image_format"),
    "animated gif": ([image(animation("GIF"), "image/gif")], 400, "unsupported_image_format"),
    "animated webp": ([image(animation("WEBP"), "image/webp")], 400, "unsupported_image_format"),
    "svg": ([image(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml")], 400, "unsupported_image_format"),
    "zip": ([image(b"PK\x03\x04" + bytes(50))], 400, "unsupported_image_format"),
    "more images than the model takes": ([image(SMALL)] * 3, 400, "too_many_images"),
    "tokens beyond the context": ([image(WIDE)] * 2, 400, "context_length_exceeded"),
    "url of another scheme": ([url("http://localhost/a.png")], 400, "forbidden_url"),
    "url of a file": ([url("file:///etc/passwd")], 400, "forbidden_url"),
    "url of a host that is not allowed": ([url("https://example.org/a.png")], 400, "forbidden_url"),
    "url of an address that is not public": ([url("https://localhost/a.png")], 400, "forbidden_url"),
    "url of another port": ([url("https://localhost:8443/a.png")], 400, "forbidden_url"),
    "url that is none": ([url("https://")], 400, "forbidden_url"),
    "audio over 25 MiB": ([sound(SECOND + bytes(25 << 20))], 413, "audio_too_large"),
    "truncated audio": ([sound(SECOND[:-1])], 400, "invalid_audio"),
    "audio of another format": ([sound(b"ID3" + bytes(50))], 400, "unsupported_audio_format"),
    "audio that is said to be of another format": ([sound(SECOND, "mp3")], 400, "unsupported_audio_format"),
    "more sounds than the model takes": ([sound(SECOND)] * 2, 400, "too_many_clips"),
    "nothing wrong with the image": ([image(SMALL)], 503, "service_unavailable"),
    "nothing wrong with the turned image": (
        [image(picture("JPEG", exif=exif(6)), "image/jpeg")], 503, "service_unavailable"
    ),
    "nothing wrong with both": ([image(SMALL), sound(SECOND)], 503, "service_unavailable"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_what_is_wrong_has_its_status_and_code(world: World, row: str) -> None:
    parts, status, code = ROWS[row]
    asked = [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, *parts]}]
    with world.http() as client:
        answer = client.post("/v1/chat/completions", json={"model": MODEL, "messages": asked})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert error["message"]
    assert len(answer.content) < 1000
    if status == 400 and not code.startswith(("too_many", "context")):
        assert (error["param"], "messages[0].content[1]" in error["message"]) == ("messages", True)
    if code == "context_length_exceeded":
        assert "32768" in error["message"], "tokens of both images are told"
    assert not [what for what in ("iVBOR", "127.0.0.1", "/etc/passwd") if what in answer.text]
    assert not [what for what in ("iVBOR", "/etc/passwd", "Traceback") if what in world.gateway_log]


@pytest.mark.parametrize(
    "row",
    [
        "over 40 Mpixel by its header",
        "damaged",
        "bmp",
        "more images than the model takes",
        "tokens beyond the context",
        "url of an address that is not public",
        "nothing wrong with the image",
    ],
)
def test_pictures_of_responses_have_the_bounds_of_chats(world: World, row: str) -> None:
    parts, status, code = ROWS[row]
    pictures = [{"type": "input_image", "image_url": part["image_url"]["url"]} for part in parts]
    asked = [{"role": "user", "content": [{"type": "input_text", "text": "what is it?"}, *pictures]}]
    with world.http() as client:
        answer = client.post("/v1/responses", json={"model": MODEL, "input": asked})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    if status == 400:
        assert error["param"] == "input"
        assert "messages" not in error["message"]
    if status == 400 and not code.startswith(("too_many_images", "context")):
        assert "input[0].content[1]" in error["message"]


def test_a_body_over_fifty_mebibytes_is_refused_unread(world: World) -> None:
    connection = http.client.HTTPConnection(world.url.removeprefix("http://"), timeout=120)
    try:
        connection.putrequest("POST", "/v1/chat/completions")
        connection.putheader("authorization", f"Bearer {API_KEY}")
        connection.putheader("content-length", str((50 << 20) + 1))
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, b"request_too_large" in answer.read()) == (413, True)
    finally:
        connection.close()


def test_text_is_answered_as_ever_and_models_say_what_they_take(world: World) -> None:
    with world.http() as client:
        (model,) = client.get("/v1/models").json()["data"]
        asked = {"model": MODEL, "messages": [{"role": "user", "content": [image(SMALL)]}]}
        counted = client.post("/tokenize", json=asked)
    assert model["input_modalities"] == ["text", "image", "audio"]
    assert model["max_images"] == 2
    assert (counted.status_code, counted.json()["error"]["code"]) == (400, "unsupported_parameter")
    assert world.client().completions.create(model=MODEL, prompt="still ", max_tokens=6).choices[0].text == "still "


def refusal(folder: Path, graph: str, *parts: Part) -> ApiError:
    """What an intake that fetches nothing says of a request to a model that reads as `graph` does."""
    terms = MediaTerms(graph_facts(graph)["config"])
    served = PublishedModel(text_model("m", [member("m", "i", "z", WHOLE)]), "", 1000, 17, media=terms)
    messages = [{"role": "user", "content": list(parts)}]
    body = read_body(json.dumps({"model": "m", "messages": messages}).encode(), ChatBody)

    async def read() -> None:
        models = {"m": ModelEntry(served, load_tokenizer(byte_tokenizer(folder)))}
        intake = MediaIntake(ImageLimits(), AudioLimits(), None)
        try:
            await intake.read(chat_params(body), models, BodyBudget(1 << 20, Counts.of_one()).hold(("", "")))
        finally:
            intake.close()

    with pytest.raises(ApiError) as refused:
        asyncio.run(read())
    return refused.value


def test_a_model_that_sees_does_not_hear(tmp_path: Path) -> None:
    said = refusal(tmp_path, "qwen2.5-vl-7b", sound(SECOND))
    assert (said.status, said.code) == (400, "unsupported_modality")
    assert "text and images" in said.message


def test_no_url_is_fetched_unless_a_host_is_allowed(tmp_path: Path) -> None:
    assert refusal(tmp_path, "qwen2.5-vl-7b", url("https://example.org/a.png")).code == "forbidden_url"


@pytest.mark.parametrize(
    ("graph", "reads"),
    [
        ("whisper-tiny.en", {Modality.TEXT, Modality.AUDIO}),
        ("llama-3.2-11b-vision", {Modality.TEXT, Modality.IMAGE}),
        ("qwen-image", {Modality.TEXT}),
    ],
)
def test_a_config_says_what_its_model_reads(graph: str, reads: set[Modality]) -> None:
    assert set(reading_of(MediaTerms(graph_facts(graph)["config"])).modalities) == reads


def test_a_table_with_a_config_that_is_not_read_is_no_table() -> None:
    with pytest.raises(ValueError, match="model_type"):
        MediaTerms({"model_type": "llama"})
