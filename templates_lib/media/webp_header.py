"""Header of a WebP (RFC 9649, section 2; VP8 frames as RFC 6386, section 9.1, has them)."""

from templates_lib.media.exif import orientation_of
from templates_lib.media.image_format import UPRIGHT, ImageFormat, ImageHeader
from templates_lib.media.media_error import MediaError, animated, damaged

MOST_CHUNKS = 1000
ANIMATION = 0x02
"""Flag of the extended header."""
NAME = "WebP"
Size = tuple[int, int]


def webp_header(data: bytes) -> ImageHeader:
    """Raises MediaError for a damaged or animated one, and one whose pixels are of another size than its header."""
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data) or end < 20:
        raise damaged(NAME, "its end is missing")
    canvas: Size | None = None
    picture: Size | None = None
    orientation, at = UPRIGHT, 12
    for _ in range(MOST_CHUNKS):
        if at + 8 > end:
            break
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if at + 8 + length > end:
            raise damaged(NAME, "a part is cut off")
        part = data[at + 8 : at + 8 + length]
        if kind == b"VP8X":
            canvas = _canvas(part)
        elif kind in (b"VP8 ", b"VP8L") and picture is None:
            picture = _lossy(part) if kind == b"VP8 " else _lossless(part)
        elif kind == b"EXIF":
            orientation = orientation_of(part.removeprefix(b"Exif\x00\x00"))
        elif kind in (b"ANIM", b"ANMF"):
            raise animated(NAME)
        at += 8 + length + length % 2  # parts begin at even places
    if picture is None:
        raise damaged(NAME, "it has no pixels")
    if canvas is not None and canvas != picture:
        raise damaged(NAME, "its pixels are of another size than its header says")
    return ImageHeader(ImageFormat.WEBP, *picture, orientation)


def _canvas(part: bytes) -> Size:
    if len(part) < 10:
        raise _no_size()
    if part[0] & ANIMATION:
        raise animated(NAME)
    return 1 + int.from_bytes(part[4:7], "little"), 1 + int.from_bytes(part[7:10], "little")


def _lossy(part: bytes) -> Size:
    if len(part) < 10 or part[0] & 1 or part[3:6] != b"\x9d\x01\x2a":
        raise _no_size()
    width, height = (int.from_bytes(part[at : at + 2], "little") & 0x3FFF for at in (6, 8))
    if width == 0 or height == 0:
        raise _no_size()
    return width, height


def _lossless(part: bytes) -> Size:
    if len(part) < 5 or part[0] != 0x2F:
        raise _no_size()
    bits = int.from_bytes(part[1:5], "little")
    return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)


def _no_size() -> MediaError:
    return damaged(NAME, "it does not say its size")
