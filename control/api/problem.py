"""The answer to a request that is refused or fails: RFC 9457, `application/problem+json`."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

MEDIA_TYPE = "application/problem+json"


class FieldProblem(BaseModel):
    """One mistake in one place of what was sent."""

    model_config = ConfigDict(frozen=True)

    path: str = Field(description="Where, as people write it: `models[0].slo.ttft_ms`; empty: the document as a whole.")
    pointer: str = Field(description="The same as a JSON pointer (RFC 6901).")
    message: str


class Problem(BaseModel):
    """RFC 9457. `type` is for programs, `title` and `detail` for people; `errors` names every field that is wrong."""

    model_config = ConfigDict(frozen=True)

    type: str = Field(description="`urn:medley:problem:NAME`; the names are listed in docs/api.md.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="Path of the request.")
    trace_id: str = Field(description="W3C trace id: the same stands in the logs and in events.")
    errors: list[FieldProblem] = []
    facts: dict[str, Any] = Field(default={}, description="What the refusal rests on, such as numbers of a budget.")


class ApiError(Exception):
    """Refuses a request. Raised anywhere below a route; the app turns it into a `Problem`."""

    def __init__(
        self,
        status: int,
        name: str,
        detail: str,
        *,
        errors: Sequence[FieldProblem] = (),
        facts: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.name = name
        self.detail = detail
        self.errors = list(errors)
        self.facts = dict(facts or {})
        self.headers = dict(headers or {})


def problem_of(error: ApiError, path: str, trace_id: str) -> Problem:
    return Problem(
        type=f"urn:medley:problem:{error.name}",
        title=error.name.replace("-", " ").capitalize(),
        status=error.status,
        detail=error.detail,
        instance=path,
        trace_id=trace_id,
        errors=error.errors,
        facts=error.facts,
    )


def problem_response(error: ApiError, path: str, trace_id: str) -> Response:
    content = problem_of(error, path, trace_id).model_dump_json(exclude_defaults=True)
    return Response(content, error.status, error.headers, MEDIA_TYPE)


def field_problem(key: Sequence[str | int], message: str) -> FieldProblem:
    place = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in key).lstrip(".")
    pointer = "".join("/" + str(k).replace("~", "~0").replace("/", "~1") for k in key)
    return FieldProblem(path=place, pointer=pointer, message=message)
