"""What the first bytes of a picture say: its format and size. Nothing is decoded, and no library is asked."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from templates_lib.media.gif_header import gif_header
from templates_lib.media.image_format import UPRIGHT, ImageFormat, ImageHeader
from templates_lib.media.jpeg_header import jpeg_header
from templates_lib.media.media_error import MediaError, MediaFault
from templates_lib.media.png_header import png_header
from templates_lib.media.webp_header import webp_header

MIB = 1 << 20
KNOWN = "Send a PNG, JPEG, WebP or GIF"
_READERS: dict[ImageFormat, tuple[Callable[[bytes], bool], Callable[[bytes], ImageHeader]]] = {
    ImageFormat.PNG: (lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"), png_header),
    ImageFormat.JPEG: (lambda data: data.startswith(b"\xff\xd8\xff"), jpeg_header),
    ImageFormat.WEBP: (lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP", webp_header),
    ImageFormat.GIF: (lambda data: data[:6] in (b"GIF87a", b"GIF89a"), gif_header),
}
_OTHERS: tuple[tuple[bytes, int, str], ...] = (
    (b"PK\x03\x04", 0, "zip archive"),
    (b"\x1f\x8b", 0, "gzip file"),
    (b"BM", 0, "BMP"),
    (b"II*\x00", 0, "TIFF"),
    (b"MM\x00*", 0, "TIFF"),
    (b"%PDF", 0, "PDF"),
    (b"ftyp", 4, "HEIC, AVIF or video"),
    (b"\xff\x0a", 0, "JPEG XL"),
    (b"\x00\x00\x00\x0cJXL ", 0, "JPEG XL"),
    (b"\x00\x00\x01\x00", 0, "icon"),
    (b"8BPS", 0, "Photoshop file"),
    (b"\x76\x2f\x31\x01", 0, "OpenEXR"),
    (b"qoif", 0, "QOI"),
)
"""First bytes, where they stand, and what has them."""
_TEXT_BYTES = 512
"""Of what may be an SVG, that are looked at."""


@dataclass(frozen=True, slots=True)
class ImageLimits:
    max_bytes: int = 20 * MIB
    """Of the file."""
    max_pixels: int = 40_000_000
    """Width times height."""


def image_header(data: bytes, limits: ImageLimits, claimed: str = "") -> ImageHeader:
    """Format and size of a picture. `claimed`: the media type that it came with, if any (`image/png`).

    Raises MediaError for what is too large, damaged as far as its headers say, animated, of another format, or of
    another one than claimed.
    """
    if len(data) > limits.max_bytes:
        why = f"The image has {len(data)} bytes; {limits.max_bytes} are the most. Send a smaller one"
        raise MediaError(MediaFault.IMAGE_TOO_LARGE, why)
    format_ = next((name for name, (fits, _) in _READERS.items() if fits(data)), None)
    if format_ is None:
        raise _unknown(data)
    if claimed.startswith("image/") and claimed not in format_.media_types:
        why = f"The image is said to be {claimed[:64]}, and is {format_.label}. Say `{format_.media_types[0]}`"
        raise MediaError(MediaFault.INVALID_IMAGE, why)
    header = _READERS[format_][1](data)
    if header.width * header.height > limits.max_pixels:
        size = f"{header.width} by {header.height} pixels"
        why = f"The image has {size}; {limits.max_pixels} pixels are the most. Send a smaller one"
        raise MediaError(MediaFault.IMAGE_TOO_MANY_PIXELS, why)
    return header


def upright(header: ImageHeader) -> ImageHeader:
    """The header of the picture as people see it, turned as its orientation says."""
    if header.is_turned:
        return replace(header, width=header.height, height=header.width, orientation=UPRIGHT)
    return replace(header, orientation=UPRIGHT)


def _unknown(data: bytes) -> MediaError:
    name = next((name for magic, at, name in _OTHERS if data[at : at + len(magic)] == magic), None)
    start = data[:_TEXT_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<svg", b"<?xml", b"<!doctype svg", b"<!--")) or b"<svg" in start:
        name = "SVG"
    if name is None:
        what = "is empty" if not data else "begins as no image does"
        return MediaError(MediaFault.INVALID_IMAGE, f"The image {what}. {KNOWN}")
    return MediaError(MediaFault.UNSUPPORTED_IMAGE_FORMAT, f"The image is a {name}. {KNOWN}")
