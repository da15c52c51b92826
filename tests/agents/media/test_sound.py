"""Sounds come as encoders hear them: one channel of 16,000 samples a second."""

import math

import numpy as np
import pytest
from scipy.signal import resample_poly

from agents.media.sound import HEARD_PER_S, heard, resampled
from templates_lib.media.media_error import MediaError, MediaFault
from templates_lib.media.wav_header import AudioLimits, wav_header
from tests.media_files import wav


def hear(data: bytes) -> np.ndarray:
    return heard(wav_header(data, AudioLimits()), data)


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 32_000, 44_100, 48_000, 15_999])
@pytest.mark.parametrize("samples", [1, 50, 12_345])
def test_resampling_equals_scipys(rate: int, samples: int) -> None:
    sound = np.random.default_rng(rate).uniform(-1, 1, samples).astype(np.float32)
    shared = math.gcd(rate, HEARD_PER_S)
    expected = resample_poly(sound.astype(np.float64), HEARD_PER_S // shared, rate // shared)
    made = resampled(sound, rate, HEARD_PER_S)
    assert made.dtype == np.float32
    assert made.shape == expected.shape
    assert np.abs(made - expected).max() < 1e-5


def test_a_tone_is_heard_at_its_pitch() -> None:
    at = np.arange(44_100) / 44_100
    tone = (20_000 * np.sin(2 * np.pi * 440 * at)).astype("<i2")
    spectrum = np.abs(np.fft.rfft(hear(wav(tone.tobytes(), rate=44_100))))
    assert int(spectrum.argmax()) == 440


@pytest.mark.parametrize(
    ("bits", "format_", "kind", "scale"),
    [(16, 1, "<i2", 2**15), (32, 1, "<i4", 2**31), (32, 3, "<f4", 1), (64, 3, "<f8", 1)],
)
def test_each_kind_of_sample_is_scaled_to_one(bits: int, format_: int, kind: str, scale: int) -> None:
    wanted = np.array([0.0, 0.5, -0.5, -1.0], np.float32)
    data = wav((wanted.astype(np.float64) * scale).astype(kind).tobytes(), bits=bits, format_=format_)
    assert np.array_equal(hear(data), wanted)


def test_unsigned_bytes_and_three_byte_samples_are_read() -> None:
    assert hear(wav(bytes([128, 192, 0]), bits=8)).tolist() == [0.0, 0.5, -1.0]
    assert hear(wav(b"\x00\x00\x40\x00\x00\x80", bits=24)).tolist() == [0.5, -1.0]


def test_channels_are_averaged() -> None:
    both = np.array([16_384, 0, -16_384, -16_384], "<i2")
    assert hear(wav(both.tobytes(), channels=2)).tolist() == [0.25, -0.5]


def test_samples_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(MediaError) as refused:
        hear(wav(np.array([0.5, np.nan], "<f4").tobytes(), bits=32, format_=3))
    assert refused.value.fault is MediaFault.INVALID_AUDIO
