"""Texts that may be stored: bounded, and of characters that PostgreSQL and people can read."""

from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, Field, StringConstraints

from control.given_name import NAME_HINT, NAME_PATTERN


def _readable(text: str) -> str:
    if "\0" in text or any(0xD800 <= ord(letter) <= 0xDFFF for letter in text):
        raise ValueError("holds a character that is no text (NUL, or half of a surrogate pair)")
    return text


Readable = AfterValidator(_readable)
NewName = Annotated[str, StringConstraints(pattern=NAME_PATTERN), Field(description=NAME_HINT)]
Line = Annotated[str, StringConstraints(max_length=300), Readable]
"""A text of people for people; may be empty."""
PathName = Annotated[str, Path(pattern=NAME_PATTERN)]
"""Name of a resource in the path."""
PathId = Annotated[str, Path(pattern=r"^[A-Za-z0-9-]{1,64}$")]
QueryText = Annotated[str | None, Query(max_length=200), Readable]
"""A filter; without it, all."""
