"""Pictures and sounds for tests, made by Pillow and by hand."""

import io
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

from PIL import Image


def picture(format_: str, size: tuple[int, int] = (37, 21), mode: str = "RGB", **options: Any) -> bytes:
    """A picture of noise; `options` are the encoder's."""
    made = io.BytesIO()
    noise(size).convert(mode).save(made, format_, **options)
    return made.getvalue()


def noise(size: tuple[int, int], seed: int = 0) -> Image.Image:
    return Image.frombytes("L", size, random.Random(seed).randbytes(size[0] * size[1]))


def exif(orientation: int) -> Image.Exif:
    made = Image.Exif()
    made[0x0112] = orientation
    return made


def animation(format_: str) -> bytes:
    more = [noise((8, 8), 1 + n).convert("RGB") for n in range(2)]
    return picture(format_, (8, 8), save_all=True, append_images=more, duration=20)


def png(width: int, height: int, rows: int | None = None) -> bytes:
    """A black PNG of few bytes, whose pixels are `rows` (its height) lines."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4) + kind + body + zlib.crc32(kind + body).to_bytes(4)

    header = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    lines = zlib.compress(bytes((1 + 3 * width) * (height if rows is None else rows)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


def endless_jpeg(side: int, scans: int) -> bytes:
    """A progressive JPEG whose last scan comes again and again: few bytes, and seconds of work."""
    made = io.BytesIO()
    Image.new("RGB", (side, side), (90, 120, 150)).save(made, "JPEG", progressive=True)
    data = made.getvalue()
    last = data.rfind(b"\xff\xda")
    return data[:-2] + data[last:-2] * scans + data[-2:]


PICTURES: dict[str, Callable[[], bytes]] = {
    "png": lambda: picture("PNG"),
    "png with alpha": lambda: picture("PNG", mode="RGBA"),
    "png of a palette": lambda: picture("PNG", mode="P"),
    "png of 16 bits": lambda: picture("PNG", mode="I;16"),
    "png that is turned": lambda: picture("PNG", exif=exif(6)),
    "jpeg": lambda: picture("JPEG"),
    "grey jpeg": lambda: picture("JPEG", mode="L"),
    "cmyk jpeg": lambda: picture("JPEG", mode="CMYK"),
    "progressive jpeg": lambda: picture("JPEG", progressive=True),
    "jpeg that is turned": lambda: picture("JPEG", exif=exif(8)),
    "jpeg that is mirrored": lambda: picture("JPEG", exif=exif(2)),
    "webp": lambda: picture("WEBP"),
    "lossless webp": lambda: picture("WEBP", lossless=True),
    "webp with alpha": lambda: picture("WEBP", mode="RGBA"),
    "webp that is turned": lambda: picture("WEBP", exif=exif(5)),
    "gif": lambda: picture("GIF", mode="P"),
}


def wav(samples: bytes, rate: int = 16_000, channels: int = 1, bits: int = 16, format_: int = 1) -> bytes:
    """A WAV of these samples."""
    frame = channels * bits // 8
    layout = struct.pack("<HHIIHH", format_, channels, rate, rate * frame, frame, bits)
    parts = (
        b"fmt " + len(layout).to_bytes(4, "little") + layout + b"data" + len(samples).to_bytes(4, "little") + samples
    )
    return b"RIFF" + (4 + len(parts)).to_bytes(4, "little") + b"WAVE" + parts
