"""Header of a JPEG (ITU-T T.81, annex B; EXIF 2.3 in its APP1 segment)."""

from templates_lib.media.exif import orientation_of
from templates_lib.media.image_format import UPRIGHT, ImageFormat, ImageHeader
from templates_lib.media.media_error import MediaError, MediaFault, damaged

MOST_SEGMENTS = 1000
"""Before the frame; pictures have a few dozen."""
FRAMES = frozenset((0xC0, 0xC1, 0xC2))
"""Baseline, extended and progressive, with Huffman codes: what is decoded."""
OTHER_FRAMES = frozenset((0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF))
BARE = frozenset((0x01, *range(0xD0, 0xD9)))
"""Markers without a segment."""
SCAN, END = 0xDA, b"\xff\xd9"
NAME = "JPEG"


def jpeg_header(data: bytes) -> ImageHeader:
    """Raises MediaError for a damaged one, or one of a kind that is not decoded."""
    at, orientation = 2, UPRIGHT
    for _ in range(MOST_SEGMENTS):
        marker, at = _marker(data, at)
        if marker in BARE:
            continue
        length = int.from_bytes(data[at : at + 2])
        if length < 2 or at + length > len(data) or marker == SCAN:
            raise damaged(NAME, "it ends before its size is said")
        segment = data[at + 2 : at + length]
        if marker in OTHER_FRAMES:
            why = "The JPEG is lossless, arithmetic or hierarchical. Send a usual one, or a PNG"
            raise MediaError(MediaFault.UNSUPPORTED_IMAGE_FORMAT, why)
        if marker in FRAMES:
            return _frame(data, at + length, segment, orientation)
        if marker == 0xE1 and segment.startswith(b"Exif\x00\x00"):
            orientation = orientation_of(segment[6:])
        at += length
    raise damaged(NAME, "its size does not come")


def _marker(data: bytes, at: int) -> tuple[int, int]:
    """The next marker, behind any fill bytes, and where its segment begins. Raises MediaError."""
    if data[at : at + 1] != b"\xff":
        raise damaged(NAME, "a segment has another length than it says")
    end = at + 1
    while data[end : end + 1] == b"\xff" and end - at < MOST_SEGMENTS:
        end += 1
    if end >= len(data) or data[end] in (0x00, 0xFF):
        raise damaged(NAME, "it ends before its size is said")
    return data[end], end + 1


def _frame(data: bytes, behind: int, segment: bytes, orientation: int) -> ImageHeader:
    """Raises MediaError."""
    if len(segment) < 6 or len(segment) != 6 + 3 * segment[5] or segment[5] not in (1, 3, 4) or segment[0] != 8:
        raise damaged(NAME, "its header says no kind of pixels that is read")
    height, width = int.from_bytes(segment[1:3]), int.from_bytes(segment[3:5])
    if width == 0 or height == 0:
        raise damaged(NAME, "it has no size")
    if data.rfind(END) < behind:
        raise damaged(NAME, "its end is missing")
    return ImageHeader(ImageFormat.JPEG, width, height, orientation)
