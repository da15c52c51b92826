"""Sound and pictures as clients are sent them: PCM as it comes, a WAV around it, or events; PNGs in JSON."""

import base64
import struct

import msgspec

from control.gateway.making.speech_request import SpeechFormat
from control.gateway.reply import event

_BITS = 16
_UNKNOWN = 0xFFFFFFFF
"""Length that a WAV says whose end is not known yet: whoever reads it takes what comes."""
_TYPES = {"wav": b"audio/wav", "pcm": b"audio/pcm"}


class SoundReply:
    """One answer, as a body that is sent in pieces."""

    def __init__(self, shape: SpeechFormat, *, as_events: bool) -> None:
        self._shape, self._as_events = shape, as_events
        self._seconds, self._is_begun = 0.0, False

    @property
    def content_type(self) -> bytes:
        return b"text/event-stream; charset=utf-8" if self._as_events else _TYPES[self._shape]

    def chunk(self, sound: bytes, samples_per_s: int, *, is_last: bool) -> bytes:
        """What a piece of 16-bit samples adds to the body."""
        self._seconds += 8 * len(sound) / _BITS / samples_per_s
        if self._shape == "wav" and not self._is_begun:
            sound = wav_opening(samples_per_s, len(sound) if is_last else None) + sound
        self._is_begun = True
        if not self._as_events:
            return sound
        delta = event({"type": "speech.audio.delta", "audio": base64.b64encode(sound).decode()})
        return delta + (event({"type": "speech.audio.done", "seconds": round(self._seconds, 3)}) if is_last else b"")


def wav_opening(samples_per_s: int, length: int | None) -> bytes:
    """What stands before `length` bytes of samples of one channel; None: nobody knows yet how many there will be."""
    whole = _UNKNOWN if length is None else 36 + length
    form = struct.pack("<HHIIHH", 1, 1, samples_per_s, samples_per_s * _BITS // 8, _BITS // 8, _BITS)
    data = _UNKNOWN if length is None else length
    return b"".join(
        (
            b"RIFF",
            struct.pack("<I", whole),
            b"WAVEfmt ",
            struct.pack("<I", len(form)),
            form,
            b"data",
            struct.pack("<I", data),
        )
    )


def images_body(created: int, pictures: list[bytes]) -> bytes:
    """The answer of /v1/images/generations."""
    data = [{"b64_json": base64.b64encode(each).decode()} for each in pictures]
    return msgspec.json.encode({"created": created, "output_format": "png", "data": data})
