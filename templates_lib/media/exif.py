"""The orientation that a camera notes beside a picture (EXIF 2.3, section 4.6.4: tag 0x0112 of the first directory)."""

from typing import Literal

from templates_lib.media.image_format import UPRIGHT

ORIENTATION, SHORT = 0x0112, 3
MOST_ENTRIES = 512


def orientation_of(tiff: bytes) -> int:
    """1 to 8; 1 where nothing is said, or nothing that makes sense: a picture is not refused for that."""
    order: Literal["little", "big"]
    if tiff[:4] == b"II*\x00":
        order = "little"
    elif tiff[:4] == b"MM\x00*":
        order = "big"
    else:
        return UPRIGHT
    at = int.from_bytes(tiff[4:8], order)
    entries = int.from_bytes(tiff[at : at + 2], order)
    for number in range(min(entries, MOST_ENTRIES)):
        entry = tiff[at + 2 + 12 * number : at + 14 + 12 * number]
        if len(entry) < 12:
            break
        tag, kind = int.from_bytes(entry[:2], order), int.from_bytes(entry[2:4], order)
        if tag == ORIENTATION and kind == SHORT:
            said = int.from_bytes(entry[8:10], order)
            return said if 1 <= said <= 8 else UPRIGHT
    return UPRIGHT
