"""Formats of pictures that are read, and what a header says of one."""

from dataclasses import dataclass
from enum import StrEnum

UPRIGHT = 1
"""The orientation of a picture that is stored as people see it (EXIF, tag 0x0112)."""
TURNED = frozenset((5, 6, 7, 8))
"""Orientations whose width and height are swapped to see them."""


class ImageFormat(StrEnum):
    PNG = "png"
    JPEG = "jpeg"
    WEBP = "webp"
    GIF = "gif"

    @property
    def label(self) -> str:
        return "WebP" if self is ImageFormat.WEBP else self.value.upper()

    @property
    def media_types(self) -> tuple[str, ...]:
        return ("image/jpeg", "image/jpg") if self is ImageFormat.JPEG else (f"image/{self.value}",)


@dataclass(frozen=True, slots=True)
class ImageHeader:
    format: ImageFormat
    width: int
    """Pixels, as stored."""
    height: int
    orientation: int = UPRIGHT
    """How it is turned to be seen: 1 to 8, as EXIF has it."""

    @property
    def is_turned(self) -> bool:
        return self.orientation in TURNED
