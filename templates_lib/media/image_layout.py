"""What becomes of a picture of a size: tiles, rows of the encoder, tokens in the prompt."""

from dataclasses import dataclass
from typing import Protocol


class ImageSizeError(ValueError):
    """No picture of this size is read; the message says why."""


@dataclass(frozen=True, slots=True)
class ImageLayout:
    width: int
    """Pixels of the canvas that is cut: the picture is scaled to it, or into it and padded."""
    height: int
    rows: int
    """Of the grid that the canvas is cut into: tiles, or patches where the canvas is one tile of any size (Qwen-VL)."""
    columns: int
    tiles: int
    """Images that the encoder sees: those of the grid, and one of the whole picture where the family adds it."""
    image_tokens: int
    """Rows that the encoder gives: the unit of its work, and what is sent to the decoder."""
    prompt_tokens: int
    """Tokens that stand for the picture in the prompt: rows, and what the family writes between and around tiles."""


class ImageRule(Protocol):
    """How a family cuts pictures. One that the processors of transformers have too equals them at every size."""

    def layout(self, width: int, height: int) -> ImageLayout:
        """Of a picture of `width` by `height` pixels, upright. Raises ImageSizeError."""
        ...


def check_size(width: int, height: int) -> None:
    """Raise ImageSizeError for a side without pixels."""
    if width < 1 or height < 1:
        raise ImageSizeError(f"a picture of {width} by {height} pixels has nothing to see; each side needs one or more")
