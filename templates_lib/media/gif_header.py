"""Header of a GIF (GIF89a specification), and whether it has one picture or several."""

from templates_lib.media.image_format import ImageFormat, ImageHeader
from templates_lib.media.media_error import animated, damaged

MOST_BLOCKS = 200_000
"""A file of 20 MiB has 82,000, if they are as long as they may be."""
PICTURE, EXTENSION, TRAILER = 0x2C, 0x21, 0x3B
NAME = "GIF"


def gif_header(data: bytes) -> ImageHeader:
    """Raises MediaError for a damaged one, one of several pictures, and one whose picture is larger than its screen."""
    if len(data) < 13:
        raise damaged(NAME, "it has no header")
    width, height = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    at, blocks, pictures = 13 + _table(data[10]), 0, 0
    while (kind := data[at] if at < len(data) else None) != TRAILER:
        if kind == EXTENSION:
            at, blocks = _past(data, at + 2, blocks)
        elif kind == PICTURE and at + 10 < len(data):
            if pictures:
                raise animated(NAME)
            pictures = 1
            _check(data[at + 1 : at + 9], width, height)
            # Behind the descriptor: a table of colours, and how wide codes begin.
            at, blocks = _past(data, at + 11 + _table(data[at + 9]), blocks)
        else:
            raise damaged(NAME, "its end is missing")
    if not pictures:
        raise damaged(NAME, "it has no picture")
    return ImageHeader(ImageFormat.GIF, width, height)


def _table(flags: int) -> int:
    """Bytes of a table of colours."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _past(data: bytes, at: int, blocks: int) -> tuple[int, int]:
    """Skip sub-blocks up to the empty one. Raises MediaError."""
    while blocks < MOST_BLOCKS:
        blocks += 1
        if at >= len(data) or data[at] == 0:
            return at + 1, blocks
        at += 1 + data[at]
    raise damaged(NAME, f"it has more than {MOST_BLOCKS} blocks")


def _check(descriptor: bytes, width: int, height: int) -> None:
    left, top, wide, high = (int.from_bytes(descriptor[at : at + 2], "little") for at in (0, 2, 4, 6))
    if wide == 0 or high == 0 or left + wide > width or top + high > height:
        raise damaged(NAME, "its picture does not fit the size that its header says")
