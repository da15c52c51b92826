"""Samples of a sound as encoders hear it: one channel, 16,000 a second, by NumPy."""

import math

import numpy as np
import numpy.typing as npt

from templates_lib.media.media_error import MediaError, MediaFault
from templates_lib.media.wav_header import WavHeader

HEARD_PER_S = 16_000
"""Samples a second that Whisper's feature extractor, and those made after it, take."""
CROSSINGS = 10
"""Of the low-pass filter on each side, at the slower of both rates (as `scipy.signal.resample_poly` has it)."""
KAISER_BETA = 5.0
"""Shape of its window (the same)."""
_BLOCK = 1 << 12
"""Samples that are made at once: bounds the memory."""
Samples = npt.NDArray[np.float32]


def heard(header: WavHeader, data: bytes) -> Samples:
    """Samples from -1 to 1, channels averaged, at `HEARD_PER_S`.

    `header` is what `wav_header` says of `data`. Raises MediaError for samples that are no numbers.
    """
    raw = np.frombuffer(data, np.uint8, header.frames * header.frame_bytes, header.start)
    mono = _scaled(raw, header).reshape(header.frames, header.channels).mean(axis=1, dtype=np.float32)
    if not np.isfinite(mono).all():
        why = "The WAV is damaged: some samples are no numbers. Send it saved anew"
        raise MediaError(MediaFault.INVALID_AUDIO, why)
    return resampled(mono, header.samples_per_s, HEARD_PER_S)


def _scaled(raw: npt.NDArray[np.uint8], header: WavHeader) -> Samples:
    if header.is_float:
        return raw.view("<f4" if header.bits == 32 else "<f8").astype(np.float32)
    if header.bits == 8:  # these alone are unsigned
        return (raw.astype(np.float32) - 128.0) / 128.0
    if header.bits == 24:
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = raw.reshape(-1, 3)
        return wide.reshape(-1).view("<i4").astype(np.float32) / np.float32(2**31)
    kind = "<i2" if header.bits == 16 else "<i4"
    return raw.view(kind).astype(np.float32) / np.float32(2 ** (header.bits - 1))


def resampled(samples: Samples, rate: int, wanted: int) -> Samples:
    """Band-limited interpolation by a ratio of whole numbers: a low-pass filter of Kaiser's window, of which each
    sample needs every `up`-th tap alone (Crochiere and Rabiner 1983, section 3.3)."""
    shared = math.gcd(rate, wanted)
    up, down = wanted // shared, rate // shared
    if up == down:
        return samples
    half = CROSSINGS * max(up, down)
    taps = _low_pass(half, max(up, down)) * up
    made = -(-len(samples) * up // down)
    width = -(-(2 * half + 1) // up)
    # Zeros on both sides, for samples whose filter reaches beyond the sound.
    padded = np.concatenate((np.zeros(width, np.float32), samples, np.zeros(width, np.float32)))
    # Row `phase`: the taps that meet samples when the filter begins `phase` places before one, last first.
    phases = np.zeros((up, width), np.float32)
    for phase in range(up):
        own = taps[phase::up]
        phases[phase, width - len(own) :] = own[::-1]
    out = np.empty(made, np.float32)
    for start in range(0, made, _BLOCK):
        place = np.arange(start, min(start + _BLOCK, made), dtype=np.int64) * down + half
        last = place // up + width
        windows = padded[last[:, None] - np.arange(width - 1, -1, -1)]
        out[start : start + len(place)] = np.einsum("ij,ij->i", windows, phases[place % up])
    return out


def _low_pass(half: int, cut: int) -> Samples:
    """Taps of a filter that keeps what is slower than 1 / `cut` of half the rate; they add up to one."""
    at = np.arange(-half, half + 1)
    taps: npt.NDArray[np.float64] = np.sinc(at / cut) * np.kaiser(2 * half + 1, KAISER_BETA)
    kept: Samples = (taps / taps.sum()).astype(np.float32)
    return kept
