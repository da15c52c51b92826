"""Why the API did not do what it was asked: its problem document, or that it could not be reached."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

_PREFIX = "urn:medley:problem:"
UNREACHABLE = "unreachable"
NOT_MEDLEY = "not-medley"
UNUSABLE = "unusable"
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Wrong:
    """One field of what was sent."""

    pointer: str
    """JSON pointer into the request's body."""
    message: str


@dataclass(frozen=True, slots=True)
class Failure(Exception):  # noqa: N818 - not always an error: `not-found` is an answer, too
    """`name`: of the problem (docs/api.md), or one of the names above."""

    name: str
    detail: str
    status: int = 0
    errors: tuple[Wrong, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    trace_id: str = ""

    def __str__(self) -> str:
        return self.detail

    @property
    def said(self) -> str:
        """The detail, with what finds the same in the API's log."""
        return f"{self.detail}\n\nTrace id: {self.trace_id}" if self.trace_id else self.detail


def failure_of(answer: httpx.Response) -> Failure:
    """Read an answer that is a refusal."""
    try:
        told = answer.json()
        name = str(told["type"]).removeprefix(_PREFIX)
        errors = tuple(Wrong(str(e["pointer"]), str(e["message"])) for e in told.get("errors", ()))
        return Failure(
            name, str(told["detail"]), answer.status_code, errors, told.get("facts", {}), told.get("trace_id", "")
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return not_medley(answer)


def not_medley(answer: httpx.Response) -> Failure:
    asked, kind = answer.request.url, answer.headers.get("content-type", "no content type")
    detail = f"{asked} answered {answer.status_code} with {kind}, which is not Medley's admin API"
    return Failure(NOT_MEDLEY, f"{detail}: is the endpoint right, and does it end before /api/v1?", answer.status_code)
