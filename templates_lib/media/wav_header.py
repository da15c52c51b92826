"""Header of a WAV (RIFF, IBM and Microsoft 1991; extensible formats as Microsoft's `WAVEFORMATEXTENSIBLE` has them)."""

from dataclasses import dataclass

from templates_lib.media.media_error import MediaError, MediaFault

MIB = 1 << 20
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
WIDTHS = {PCM: (8, 16, 24, 32), FLOAT: (32, 64)}
"""Format → bits a sample that are read."""
MOST_CHANNELS, SLOWEST, FASTEST = 32, 1000, 384_000
"""Channels, and samples a second, that are read."""
MOST_CHUNKS = 1000
KNOWN = "Send a WAV of PCM or floating-point samples"


@dataclass(frozen=True, slots=True)
class AudioLimits:
    max_bytes: int = 25 * MIB
    """Of the file (OpenAI's own)."""
    max_seconds: float = 1800.0


@dataclass(frozen=True, slots=True)
class WavHeader:
    samples_per_s: int
    channels: int
    bits: int
    """Of a sample of one channel."""
    is_float: bool
    start: int
    """First byte of the samples."""
    frames: int
    """Samples of each channel."""

    @property
    def seconds(self) -> float:
        return self.frames / self.samples_per_s

    @property
    def frame_bytes(self) -> int:
        return self.channels * self.bits // 8


def wav_header(data: bytes, limits: AudioLimits) -> WavHeader:
    """What a sound says of itself. Raises MediaError for what is too large or long, damaged, or of another format."""
    if len(data) > limits.max_bytes:
        why = f"The audio has {len(data)} bytes; {limits.max_bytes} are the most. Send less of it"
        raise MediaError(MediaFault.AUDIO_TOO_LARGE, why)
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise _other(data)
    layout: tuple[int, int, int, int] | None = None
    at = 12
    for _ in range(MOST_CHUNKS):
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if len(data) < at + 8:
            break
        if kind == b"fmt ":
            layout = _layout(data[at + 8 : at + 8 + length])
        elif kind == b"data" and layout is not None:
            return _whole(data, at + 8, length, layout, limits)
        at += 8 + length + length % 2  # parts begin at even places
    raise _damaged("it has no samples")


def _whole(data: bytes, start: int, length: int, layout: tuple[int, int, int, int], limits: AudioLimits) -> WavHeader:
    """Raises MediaError."""
    format_, channels, rate, bits = layout
    frame = channels * bits // 8
    # Programs that write to a pipe do not know the length yet, and say the largest.
    there = len(data) - start
    if length > there and length < 0xFFFFFF00:
        raise _damaged("its end is missing")
    frames = min(length, there) // frame
    header = WavHeader(rate, channels, bits, format_ == FLOAT, start, frames)
    if frames == 0:
        raise _damaged("it has no samples")
    if header.seconds > limits.max_seconds:
        why = f"The audio has {header.seconds:.0f} s; {limits.max_seconds:.0f} s are the most. Send less of it"
        raise MediaError(MediaFault.AUDIO_TOO_LARGE, why)
    return header


def _layout(part: bytes) -> tuple[int, int, int, int]:
    """Format, channels, samples a second and bits. Raises MediaError."""
    if len(part) < 16:
        raise _damaged("it does not say its format")
    format_, channels = int.from_bytes(part[:2], "little"), int.from_bytes(part[2:4], "little")
    rate, bits = int.from_bytes(part[4:8], "little"), int.from_bytes(part[14:16], "little")
    if format_ == EXTENSIBLE and len(part) >= 26:
        format_ = int.from_bytes(part[24:26], "little")
    if bits not in WIDTHS.get(format_, ()):
        raise MediaError(MediaFault.UNSUPPORTED_AUDIO_FORMAT, f"The audio's samples are of no known kind. {KNOWN}")
    if not 1 <= channels <= MOST_CHANNELS or not SLOWEST <= rate <= FASTEST:
        raise _damaged("its channels or its samples a second are none that there are")
    return format_, channels, rate, bits


def _damaged(what: str) -> MediaError:
    return MediaError(MediaFault.INVALID_AUDIO, f"The WAV is damaged: {what}. Send the whole file")


def _other(data: bytes) -> MediaError:
    names = {b"ID3": "MP3", b"\xff\xfb": "MP3", b"\xff\xf3": "MP3", b"fLaC": "FLAC", b"OggS": "Ogg"}
    name = next((name for magic, name in names.items() if data.startswith(magic)), None)
    name = "MP4" if name is None and data[4:8] == b"ftyp" else name
    if name is None:
        what = "is empty" if not data else "begins as no WAV does"
        return MediaError(MediaFault.INVALID_AUDIO, f"The audio {what}. {KNOWN}")
    return MediaError(MediaFault.UNSUPPORTED_AUDIO_FORMAT, f"The audio is {name}. {KNOWN}")
