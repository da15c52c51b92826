"""Turn every exception into the problem that a caller gets. The type of an error decides the status."""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from control.access.pepper import PepperError
from control.actions.refusal import (
    FailsPreflightError,
    LookFirstError,
    LosesTrafficError,
    RefusedActionError,
    WrongFieldError,
)
from control.api.plan_diff import plan_diff
from control.api.problem import ApiError, FieldProblem, field_problem, problem_response
from control.api.trace import current_trace
from control.db.errors import DatabaseError, InUseError, NotStoredError, StaleVersionError, UnstorableError
from control.fleet_file.problem import SpecError
from control.fleet_file.validation import complaint
from control.offers.quotes import OfferError

_log = logging.getLogger("medley.api")
_NAMES = {404: "not-found", 405: "method-not-allowed", 400: "bad-request", 413: "too-large", 415: "not-json"}


def tell_failures(app: FastAPI) -> None:
    for kind in (
        ApiError, OfferError, HTTPException, RequestValidationError, SpecError, DatabaseError, UnicodeEncodeError,
        RefusedActionError, PepperError, Exception,
    ):  # fmt: skip
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    refusal = api_error(error, request)
    if refusal.status >= 500:
        _log.error("%s %s failed: %s", request.method, request.url.path, error, exc_info=refusal.status == 500)
    return problem_response(refusal, request.url.path, current_trace.get())


def api_error(error: Exception, request: Request | None = None) -> ApiError:  # noqa: PLR0911, PLR0912 - one a kind
    """Translate an error. `request` is the one in which it was raised; its route knows the schema of its body."""
    match error:
        case ApiError():
            return error
        case NotStoredError():
            return ApiError(404, "not-found", str(error))
        case StaleVersionError():
            return ApiError(412, "precondition-failed", str(error))
        case InUseError():
            return ApiError(409, "conflict", str(error))
        case RefusedActionError():
            return _refused(error)
        case UnstorableError() | UnicodeEncodeError():
            detail = "a value cannot be stored: a character that is no text, or a number too large"
            return ApiError(400, "bad-request", detail)
        case DatabaseError():
            return ApiError(503, "unavailable", str(error), headers={"Retry-After": "2"})
        case PepperError():  # whoever asks may be anybody: the log names the file
            detail = (
                "the control plane cannot use its file of peppers: its log says why; mend the file and send it again"
            )
            return ApiError(503, "unavailable", detail, headers={"Retry-After": "10"})
        case SpecError():
            fields = [field_problem(p.key, p.message) for p in error.problems]
            return ApiError(422, "invalid", f"{len(fields)} fields are wrong", errors=fields)
        case OfferError():
            return ApiError(422, "invalid", str(error))
        case RequestValidationError():
            return _invalid(error, request)
        case HTTPException():
            name = _NAMES.get(error.status_code, "error")
            return ApiError(error.status_code, name, str(error.detail), headers=error.headers)
        case _:
            detail = "this is a bug in Medley: report it with the trace_id, under which the API's log says more"
            return ApiError(500, "internal", detail)


def _refused(error: RefusedActionError) -> ApiError:
    match error:
        case LookFirstError():
            facts = {"diff": plan_diff(error.change).model_dump(mode="json")}
            return ApiError(409, "look-first", str(error), facts=facts)
        case LosesTrafficError():
            query = "&".join(f"confirm={model}" for model in error.models)
            detail = f"{error}. Send the request again with ?{query} to drain them"
            return ApiError(409, "serves-traffic", detail, facts={"models": msgspec.to_builtins(error.models)})
        case FailsPreflightError():
            return ApiError(422, "fails-preflight", str(error), facts={"checks": msgspec.to_builtins(error.found)})
        case WrongFieldError():
            key = (error.field,) if error.field else ()
            return ApiError(422, "invalid", str(error), errors=[field_problem(key, str(error))])
        case _:
            return ApiError(409, "conflict", str(error))


def _invalid(error: RequestValidationError, request: Request | None) -> ApiError:
    problems: Sequence[Any] = error.errors()
    if any(p["type"] == "json_invalid" for p in problems):
        return ApiError(400, "bad-json", f"the body is not JSON: {problems[0]['ctx']['error']}")
    if any(tuple(p["loc"]) == ("body",) and isinstance(error.body, bytes) for p in problems):
        return ApiError(415, "not-json", "send the body as application/json")
    schema = _schema(request)
    fields = [_field_problem(schema, p) for p in problems]
    detail = f"{len(fields)} fields are wrong" if len(fields) > 1 else "a field is wrong"
    return ApiError(422, "invalid", f"{detail}: {fields[0].message}", errors=fields)


def _field_problem(schema: type[BaseModel] | None, problem: Any) -> FieldProblem:
    place, *key = problem["loc"]
    if place != "body":
        return field_problem((place, *key), f"{problem['msg']}, is {str(problem['input'])[:60]!r}")
    if schema is None or not key:
        return field_problem(key, problem["msg"])
    return field_problem(key, complaint(schema, tuple(key), problem))


def _schema(request: Request | None) -> type[BaseModel] | None:
    body = getattr(request.scope.get("route"), "body_field", None) if request is not None else None
    kind = getattr(getattr(body, "field_info", None), "annotation", None)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
