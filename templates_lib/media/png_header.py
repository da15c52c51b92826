"""Header of a PNG (W3C PNG, third edition, section 5 and 11.2)."""

from templates_lib.media.exif import orientation_of
from templates_lib.media.image_format import UPRIGHT, ImageFormat, ImageHeader
from templates_lib.media.media_error import animated, damaged

MOST_CHUNKS = 1000
"""Before the pixels; pictures have a few."""
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""Colour type → bits a sample."""
NAME = "PNG"


def png_header(data: bytes) -> ImageHeader:
    """Raises MediaError for a damaged or animated one."""
    if data[12:16] != b"IHDR" or int.from_bytes(data[8:12]) != 13 or len(data) < 33:
        raise damaged(NAME, "it has no header")
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    if not 0 < width < 1 << 31 or not 0 < height < 1 << 31:
        raise damaged(NAME, "it has no size")
    if data[24] not in DEPTHS.get(data[25], ()) or data[26] or data[27] or data[28] > 1:
        raise damaged(NAME, "its header says no kind of pixels that there is")
    if data.rfind(b"IEND") < 33:
        raise damaged(NAME, "its end is missing")
    return ImageHeader(ImageFormat.PNG, width, height, _before_pixels(data))


def _before_pixels(data: bytes) -> int:
    """Walk the chunks before the pixels: the orientation, if one says it. Raises MediaError."""
    at, orientation = 33, UPRIGHT
    for _ in range(MOST_CHUNKS):
        length, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        if len(kind) < 4 or at + 12 + length > len(data):
            raise damaged(NAME, "it ends before its pixels do")
        if kind == b"IDAT":
            return orientation
        if kind == b"acTL":
            raise animated(NAME)
        if kind == b"eXIf":
            orientation = orientation_of(data[at + 8 : at + 8 + length])
        at += 12 + length
    raise damaged(NAME, "its pixels do not come")
