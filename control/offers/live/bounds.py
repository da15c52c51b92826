"""Bounds of a cloud's answers: far more than any cloud sends, far less than what would hurt."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from control.offers.live.source import NoAnswerError

T = TypeVar("T")

MAX_PAGES = 400
MAX_BYTES = 64 << 20
"""Largest body or file in bytes."""
MAX_OFFERS = 200_000


def bounded(pages: Iterable[T], what: str) -> Iterator[T]:
    """Yield pages, up to MAX_PAGES. Raises NoAnswerError when there are more: a cursor may lead in circles."""
    for number, page in enumerate(pages):
        if number >= MAX_PAGES:
            raise NoAnswerError(f"{what}: more than {MAX_PAGES} pages")
        yield page
