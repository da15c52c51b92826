"""POST /v1/audio/transcriptions: from a form to `GenerationParams`."""

import re
import secrets

from control.gateway.api_error import bad_request, unsupported
from control.gateway.generation_params import GenerationParams, Speech
from control.gateway.media.part import MediaPart
from control.gateway.multipart import FormPart
from control.gateway.sampling_defaults import AskedSampling
from templates_lib.graphs.component import Modality

_LANGUAGE = re.compile(r"[a-z]{2,3}")
_HOTTEST = 1.0
_SEED_BITS = 62


def transcription_params(parts: tuple[FormPart, ...]) -> GenerationParams:
    """Raises ApiError."""
    given: dict[str, FormPart] = {}
    for part in parts:
        if part.name in given:
            raise bad_request(f"`{part.name[:64]}` is there more than once", part.name[:64])
        given[part.name] = part
    file, model = given.pop("file", None), _text(given, "model")
    if file is None or not file.is_file:
        raise bad_request("`file`: send the audio as a file", "file")
    if model is None:
        raise bad_request("`model`: say which is to write it down", "model")
    language, is_stream = _text(given, "language"), _text(given, "stream")
    if language is not None and not _LANGUAGE.fullmatch(language):
        raise bad_request("`language`: write it as ISO-639-1, such as `en`", "language")
    if is_stream not in (None, "true", "false"):
        raise bad_request("`stream` is true or false", "stream")
    if (shape := _text(given, "response_format")) not in (None, "json"):
        raise unsupported("response_format", f"answers are `json`, not `{(shape or '')[:32]}`")
    temperature = _temperature(_text(given, "temperature"))
    for name in given:
        raise unsupported(name[:64], "leave it out")
    clip = MediaPart(Modality.AUDIO, "file", "", "wav", file.data)
    return GenerationParams(
        model=model,
        prompts=(Speech((clip,), language),),
        choices=1,
        sampling=AskedSampling(
            temperature=temperature, top_p=None, top_k=None, seed=secrets.randbits(_SEED_BITS), top_logprobs=None
        ),
        max_tokens=None,
        stop=(),
        stop_token_ids=(),
        is_stream=is_stream == "true",
        with_usage=False,
        ignores_eos=False,
        service_tier=None,
        cache_salt="",
    )


def _text(given: dict[str, FormPart], name: str) -> str | None:
    """Take a field of text out; None: it is not there. Raises ApiError."""
    part = given.pop(name, None)
    if part is None:
        return None
    try:
        return part.data.decode()
    except UnicodeDecodeError:
        raise bad_request(f"`{name}` is no text", name) from None


def _temperature(text: str | None) -> float:
    """Raises ApiError."""
    try:
        found = 0.0 if text is None else float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= _HOTTEST:
        raise bad_request(f"`temperature` is a number from 0 to {_HOTTEST:g}", "temperature")
    return found
