"""What a generator of speech works on: codec tokens, and the voice that is to say them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Voice:
    """A speaker, as the model's publisher gives one with its weights."""

    embedding: NDArray[np.float32]
    """(width,)"""
    mel: NDArray[np.float32]
    """(frames, bands) of a sample of the voice."""


@dataclass(frozen=True, slots=True, eq=False)
class CodecUnit:
    """A piece of speech to be made as one."""

    id: str
    codes: NDArray[np.int64]
    """(n,) tokens of the codec."""
    voice: Voice
    seed: int
    """Of the noise that it is made from: the same anywhere gives the same sound."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Bounds of such units, and what comes of them; known without the model, as `UnitKind` is for encoders."""

    vocabulary: int
    """Tokens of the codec."""
    most: int
    """Tokens of a unit."""
    voice_width: int
    bands: int
    least_frames: int
    """Of a voice's sample: its encoder looks so far aside."""
    most_frames: int
    frames: int
    """Mel frames of a token."""
    samples: int
    """Of a token."""
    samples_per_s: int

    def refusal(self, unit: CodecUnit) -> str | None:
        """Say what is wrong with a unit; None: nothing."""
        codes = unit.codes
        if codes.ndim != 1 or codes.dtype != np.int64 or not 1 <= len(codes) <= self.most:
            return f"codes have shape (n,) with n in [1, {self.most}], int64: got {codes.shape}, {codes.dtype}"
        if codes.min() < 0 or codes.max() >= self.vocabulary:
            return f"codes are in [0, {self.vocabulary})"
        if not 0 <= unit.seed < 1 << 63:
            return "a seed is in [0, 2^63)"
        return self._refusal_of_voice(unit.voice)

    def rows_in(self, unit: CodecUnit) -> int:
        """Count the rows of a pass, made once with the voice and codes and once without: what bounds a batch."""
        return 2 * self.frames * len(unit.codes)

    def samples_out(self, unit: CodecUnit) -> int:
        return self.samples * len(unit.codes)

    def example(self, size: int, seed: int) -> CodecUnit:
        """Make a unit of random codes, `size` of them, for measurements."""
        random = np.random.default_rng(seed)
        voice = Voice(
            random.standard_normal(self.voice_width, dtype=np.float32),
            random.standard_normal((4 * self.least_frames, self.bands), dtype=np.float32),
        )
        return CodecUnit(f"speech {seed}", random.integers(0, self.vocabulary, size), voice, seed)

    def _refusal_of_voice(self, voice: Voice) -> str | None:
        frames = len(voice.mel) if voice.mel.ndim == 2 else 0
        if not self.least_frames <= frames <= self.most_frames or voice.mel.shape[1] != self.bands:
            limits = f"[{self.least_frames}, {self.most_frames}]"
            return f"a voice's sample has shape (n, {self.bands}) with n in {limits}: got {voice.mel.shape}"
        if voice.embedding.shape != (self.voice_width,):
            return f"a voice's embedding has shape ({self.voice_width},): got {voice.embedding.shape}"
        if any(part.dtype != np.float32 or not np.isfinite(part).all() for part in (voice.mel, voice.embedding)):
            return "a voice is of finite fp32 numbers"
        return None
