"""Whisper's spectrogram: the logarithm of power in mel bands (Radford et al. 2022, section 2.2)."""

import numpy as np
import torch
from numpy.typing import NDArray

SAMPLES_PER_S = 16_000
WINDOW = 400
HOP = 160
_BREAK_HZ, _BREAK_MEL, _LOG_STEP = 1000.0, 15.0, 27.0 / np.log(6.4)
"""Slaney's scale: linear up to 1 kHz, where it is at mel 15, logarithmic above."""


def mel_filters(bands: int) -> NDArray[np.float32]:
    """(bands, WINDOW / 2 + 1) triangles of area one on Slaney's mel scale up to 8 kHz (Slaney 1998, Auditory
    Toolbox)."""
    mels = np.linspace(0.0, _mel(SAMPLES_PER_S / 2), bands + 2)
    edges = np.where(
        mels < _BREAK_MEL, mels * _BREAK_HZ / _BREAK_MEL, _BREAK_HZ * np.exp((mels - _BREAK_MEL) / _LOG_STEP)
    )
    bins = np.linspace(0.0, SAMPLES_PER_S / 2, WINDOW // 2 + 1)
    slopes = edges[:, None] - bins
    widths = np.diff(edges)[:, None]
    triangles = np.maximum(0.0, np.minimum(-slopes[:-2] / widths[:-1], slopes[2:] / widths[1:]))
    return (triangles * (2.0 / (edges[2:] - edges[:-2]))[:, None]).astype(np.float32)


def log_mel(sound: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    """(n, samples) fp32 → (n, bands, samples / HOP) from about -1 to 1: what is 80 dB below a clip's peak is cut off,
    so that clips are computed each by itself."""
    window = torch.hann_window(WINDOW, device=sound.device)
    spectrum = torch.stft(sound, WINDOW, HOP, window=window, return_complex=True)
    power = filters @ (spectrum[..., :-1].abs() ** 2).contiguous()
    levels = power.clamp(min=1e-10).log10()
    peak = levels.amax(dim=(1, 2), keepdim=True)
    return (torch.maximum(levels, peak - 8.0) + 4.0) / 4.0


def _mel(hertz: float) -> float:
    return float(_BREAK_MEL + np.log(hertz / _BREAK_HZ) * _LOG_STEP)
