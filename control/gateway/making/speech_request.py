"""POST /v1/audio/speech: from body to `MadeParams`."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from agents.messages.component_work import AskedSpeech, TextToMake
from control.gateway.api_error import bad_request, unsupported
from control.gateway.making.made_params import MadeParams
from control.gateway.service_tier import ServiceTier
from templates_lib.graphs.component import Modality

SpeechFormat = Literal["wav", "pcm"]
_Name = Annotated[str, Meta(min_length=1, max_length=256)]


class VoiceObject(Struct, forbid_unknown_fields=True):
    id: _Name


class SpeechBody(Struct, kw_only=True, forbid_unknown_fields=True):
    model: Annotated[str, Meta(max_length=512)]
    input: TextToMake
    voice: _Name | VoiceObject | None = None
    instructions: str | None = None
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] | None = None
    """None: `wav`, as nothing here makes the `mp3` that is OpenAI's own."""
    speed: Annotated[float, Meta(ge=0.25, le=4)] | None = None
    stream_format: Literal["audio", "sse"] | None = None
    service_tier: ServiceTier | None = None


def speech_params(body: SpeechBody) -> tuple[MadeParams, SpeechFormat]:
    """Raises ApiError."""
    if body.instructions:
        raise unsupported("instructions", "the voices that are served here take none; choose another `voice`")
    if not body.input.strip():
        raise bad_request("`input`: there is nothing to be spoken", "input")
    shape: SpeechFormat
    match body.response_format:
        case None | "wav":
            shape = "wav"
        case "pcm":
            shape = "pcm"
        case other:
            raise unsupported("response_format", f"answers are `wav` or `pcm`, not `{other}`")
    voice = body.voice.id if isinstance(body.voice, VoiceObject) else body.voice
    asked = AskedSpeech(body.input, voice or "", 1.0 if body.speed is None else body.speed)
    return MadeParams(body.model, Modality.AUDIO, (asked,), body.service_tier), shape
