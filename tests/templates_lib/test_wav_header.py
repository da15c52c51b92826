"""Headers of sounds say what is in them, and nothing but an error comes of what is none."""

import io
import wave

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates_lib.media.media_error import MediaError, MediaFault
from templates_lib.media.wav_header import AudioLimits, wav_header
from tests.media_files import wav

LIMITS = AudioLimits()
SECOND = wav(bytes(2 * 16_000))


@pytest.mark.parametrize(("rate", "channels", "width"), [(16_000, 1, 2), (44_100, 2, 2), (8000, 1, 1), (48_000, 6, 3)])
def test_a_header_says_what_pythons_own_reader_finds(rate: int, channels: int, width: int) -> None:
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(bytes(channels * width * 500))
    header = wav_header(made.getvalue(), LIMITS)
    assert (header.samples_per_s, header.channels, header.bits) == (rate, channels, 8 * width)
    assert (header.frames, header.seconds) == (500, 500 / rate)


def test_floats_and_extensible_formats_are_read() -> None:
    assert wav_header(wav(bytes(400), bits=32, format_=3), LIMITS).is_float
    made = bytearray(wav(bytes(400)))
    made[20:22] = (0xFFFE).to_bytes(2, "little")
    long = bytes(made[:16]) + (40).to_bytes(4, "little") + bytes(made[20:36]) + bytes(8) + b"\x01" + bytes(15)
    assert wav_header(long + bytes(made[36:]), LIMITS).frames == 200


def test_a_sound_of_no_known_length_is_read_to_its_end() -> None:
    streamed = SECOND[:40] + b"\xff\xff\xff\xff" + SECOND[44:]
    assert wav_header(streamed, LIMITS).seconds == 1.0


REFUSED = (
    (b"", MediaFault.INVALID_AUDIO),
    (b"hello", MediaFault.INVALID_AUDIO),
    (SECOND[:44], MediaFault.INVALID_AUDIO),
    (SECOND[:-1], MediaFault.INVALID_AUDIO),
    (wav(b""), MediaFault.INVALID_AUDIO),
    (wav(bytes(4), rate=0), MediaFault.INVALID_AUDIO),
    (wav(bytes(4), channels=0), MediaFault.INVALID_AUDIO),
    (wav(bytes(4), bits=12), MediaFault.UNSUPPORTED_AUDIO_FORMAT),
    (wav(bytes(4), format_=6), MediaFault.UNSUPPORTED_AUDIO_FORMAT),
    (b"ID3\x04" + bytes(50), MediaFault.UNSUPPORTED_AUDIO_FORMAT),
    (b"fLaC" + bytes(50), MediaFault.UNSUPPORTED_AUDIO_FORMAT),
    (b"OggS" + bytes(50), MediaFault.UNSUPPORTED_AUDIO_FORMAT),
    (bytes(4) + b"ftypM4A " + bytes(50), MediaFault.UNSUPPORTED_AUDIO_FORMAT),
)


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_is_no_sound_that_is_read_is_refused(case: int) -> None:
    data, fault = REFUSED[case]
    with pytest.raises(MediaError) as refused:
        wav_header(data, LIMITS)
    assert refused.value.fault is fault


def test_a_sound_that_is_too_long_is_refused() -> None:
    for limits in (AudioLimits(max_bytes=1000), AudioLimits(max_seconds=0.5)):
        with pytest.raises(MediaError) as refused:
            wav_header(SECOND, limits)
        assert refused.value.fault is MediaFault.AUDIO_TOO_LARGE


@settings(max_examples=300, deadline=None)
@given(st.sampled_from((b"", b"RIFF\x00\x00\x00\x00WAVE", SECOND[:36], SECOND[:44])), st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(start: bytes, rest: bytes) -> None:
    try:
        header = wav_header(start + rest, LIMITS)
    except MediaError:
        return
    assert 0 < header.frames * header.frame_bytes <= len(rest) + len(start)
