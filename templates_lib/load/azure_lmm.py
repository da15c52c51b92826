"""Rows of the Azure LMM inference trace (2025, of ModServe): how many pictures a request has, and which of its tokens
are text.

**The released column `NumImages` is the square of the number of images**, although nothing says so: of the 3,055 raw
rows that are to be had each is a perfect square, the published distribution steps at squares only, and tokens of
requests with many images grow by 1,105 for each step of the root. The root is read here.

What an image is in tokens is not published. By the public rule of the traced model's kind an image is 85 tokens, and
170 more for each of up to six tiles of 512 pixels (1,105 for the pictures of the bursts); all images of a request are
taken to be as large as its tokens allow. What is left is text.
"""

from math import isqrt

BASE_TOKENS, TILE_TOKENS, MOST_TILES = 85, 170, 6


def images_of(squared: float) -> int:
    """Number of images of a row. Raises ValueError for what is no perfect square: the file is not of this trace."""
    images = isqrt(max(int(squared), 0))
    if images * images != squared:
        raise ValueError(f"NumImages is {squared:g}; the released trace has squares of the number of images")
    return images


def text_tokens_of(context_tokens: int, images: int) -> int:
    """Tokens of the prompt that are text, at least one. Raises ValueError where so many images do not fit at all."""
    for tiles in range(MOST_TILES, -1, -1):
        left = context_tokens - images * (BASE_TOKENS + tiles * TILE_TOKENS)
        if left >= 1:
            return left
    raise ValueError(f"ContextTokens is {context_tokens}, too few for {images} images")
