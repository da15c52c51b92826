"""Cuts text into pieces that are spoken one after another: the first of them is heard while the others are made."""

import re
from collections.abc import Iterator

_ENDS = re.compile(r"(?<=[.!?…;:。！？；])\s+|(?<=[。！？；])|\s*\n\s*")
"""Between sentences, and clauses that are spoken with a pause between them."""
_PAUSES = (re.compile(r"(?<=[,、，])\s*"), re.compile(r"\s+"))
"""Where a sentence that is too long is cut, best first."""


def spoken_pieces(text: str, most: int) -> tuple[str, ...]:
    """Sentences of at most `most` characters, in order; together they have all that is not white space."""
    return tuple(piece for sentence in _ENDS.split(text) for piece in cut(sentence.strip(), most))


def cut(text: str, most: int) -> Iterator[str]:
    """Yield pieces of at most `most` characters: cut behind a comma, else between words, else anywhere."""
    while len(text) > most:
        at = next((found for pauses in _PAUSES if (found := _last(pauses, text, most))), most)
        yield text[:at].strip()
        text = text[at:].strip()
    if text:
        yield text


def _last(pauses: re.Pattern[str], text: str, most: int) -> int:
    """End of the last pause within the first `most` characters; 0: there is none."""
    return max((found.end() for found in pauses.finditer(text, 1, most) if found.end() < len(text)), default=0)
