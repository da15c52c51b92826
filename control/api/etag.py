"""Conditional writes: a version as an entity tag, and what a writer must say that it has read."""

import re
from typing import Annotated

from fastapi import Depends, Header, Response

from control.api.problem import ApiError

_FORM = re.compile(r'"(\d{1,9})"')


def tag(version: int) -> str:
    return f'"{version}"'


def tagged(response: Response, version: int) -> None:
    response.headers["ETag"] = tag(version)


def expected_version(
    if_match: Annotated[
        str | None,
        Header(description="ETag of what was read; without it 428, when it is not the newest 412.", max_length=64),
    ] = None,
) -> int:
    """The version that a conditional write is based on, as a dependency."""
    return _read(if_match)


Version = Annotated[int, Depends(expected_version)]


def expected_or_none(
    if_match: Annotated[str | None, Header(description="ETag of what is replaced.", max_length=64)] = None,
    if_none_match: Annotated[str | None, Header(description="`*`: make it; there is none.", max_length=64)] = None,
) -> int:
    """Read the version that a PUT expects, as `expected_version` does; 0 where the PUT is to make what is not there
    yet."""
    return 0 if if_none_match == "*" else _read(if_match)


VersionOrNone = Annotated[int, Depends(expected_or_none)]


def _read(if_match: str | None) -> int:
    """Raises ApiError 428 without If-Match, 412 for what is no ETag of ours."""
    if if_match is None:
        raise ApiError(
            428,
            "precondition-required",
            "send If-Match with the ETag of what you have read, so that nobody's change is lost",
        )
    found = _FORM.fullmatch(if_match.strip())
    if found is None:
        raise ApiError(412, "precondition-failed", f"If-Match {if_match!r} is not the ETag of this: read it again")
    return int(found[1])
