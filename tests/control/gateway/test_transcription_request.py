"""Forms with speech: split as they were put together, and refused with the field that is wrong."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.gateway.api_error import ApiError
from control.gateway.generation_params import Speech
from control.gateway.multipart import FormPart, form_parts
from control.gateway.transcription_request import transcription_params

NAMES = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)


def sent(files: dict[str, tuple[str, bytes]], data: dict[str, str]) -> tuple[bytes, str]:
    """Body and content type, as a client makes them."""
    request = httpx.Request("POST", "http://gateway", files=files, data=data)
    return request.read(), request.headers["content-type"]


@given(st.dictionaries(NAMES, st.text(max_size=40), max_size=5), st.binary(max_size=300))
def test_a_form_has_the_parts_that_its_client_put_in(fields: dict[str, str], file: bytes) -> None:
    body, kind = sent({"the file": ("a;b.wav", file)}, fields)
    assert set(form_parts(body, kind)) == {
        FormPart("the file", file, True),
        *(FormPart(name, text.encode(), False) for name, text in fields.items()),
    }


@given(st.binary(max_size=200), st.integers(0, 400))
def test_what_is_cut_or_no_form_is_refused_and_nothing_else(file: bytes, cut: int) -> None:
    body, kind = sent({"file": ("a.wav", file)}, {"model": "m"})
    for damaged, of_kind in ((body[: min(cut, len(body) - 4)], kind), (file, kind), (body, "application/json")):
        with pytest.raises(ApiError) as refused:
            form_parts(damaged, of_kind)
        assert refused.value.status == 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "model"),
        ({"model": "m", "language": "English"}, "language"),
        ({"model": "m", "temperature": "hot"}, "temperature"),
        ({"model": "m", "stream": "yes"}, "stream"),
        ({"model": "m", "response_format": "srt"}, "response_format"),
        ({"model": "m", "prompt": "names"}, "prompt"),
    ],
)
def test_a_field_that_is_wrong_is_named(fields: dict[str, str], param: str) -> None:
    parts = form_parts(*sent({"file": ("a.wav", b"RIFF")}, fields))
    with pytest.raises(ApiError) as refused:
        transcription_params(parts)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_the_file_becomes_speech_and_is_greedy_where_nothing_is_said() -> None:
    params = transcription_params(form_parts(*sent({"file": ("a.wav", b"RIFF")}, {"model": "m", "language": "de"})))
    (speech,) = params.prompts
    assert isinstance(speech, Speech)
    assert (speech.media[0].data, speech.language, params.sampling.temperature) == (b"RIFF", "de", 0.0)
    with pytest.raises(ApiError) as refused:
        transcription_params((FormPart("model", b"m", False), FormPart("file", b"text", False)))
    assert refused.value.param == "file"
