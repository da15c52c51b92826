"""Every route below /api/v1: who calls is known and may, and what is asked twice under one key is done once."""

import hashlib
from collections.abc import Callable, Collection, Coroutine, Iterable
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from control.access.role import Role
from control.actions.context import ActionContext
from control.api.caller import SAFE, Caller, CallerOf, identify
from control.api.documented import ROLE
from control.api.problem import ApiError, field_problem
from control.api.services import Services
from control.api.trace import current_trace
from control.db.idempotent_answers import AnswerOnItsWay, IdempotentRequest, OtherRequestError, PostgresAnswers
from templates_lib.values.nearest_name import nearest_name

PREFIX = "/api/v1"
KEY_HEADER = "Idempotency-Key"
_KEY_PARAMETER = {
    "name": KEY_HEADER,
    "in": "header",
    "required": False,
    "description": "The same key and request again gives the same answer, for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}
_KEPT_HEADERS = ("content-type", "etag", "location")
_IN_FLIGHT = timedelta(minutes=2)
"""Longer than any request takes: each of its statements is cut off after seconds."""


class _StoredResponse(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: bytes


def api_router(tag: str) -> APIRouter:
    return APIRouter(prefix=PREFIX, tags=[tag], route_class=GuardedRoute)


class GuardedRoute(APIRoute):
    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """The caller needs the role that the route says (`documented.needs`), else a viewer's to look and an operator's
        to touch. The OpenAPI document says so too."""
        extra, methods = dict(options.pop("openapi_extra", None) or {}), set(options.get("methods") or ("GET",))
        self.needed = Role(extra.get(ROLE, Role.VIEWER if methods <= SAFE else Role.OPERATOR))
        extra |= {ROLE: self.needed.value, "security": [{"token": []}, {"session": []}]}
        if "POST" in methods:
            extra["parameters"] = [*extra.get("parameters", ()), _KEY_PARAMETER]
        super().__init__(path, endpoint, openapi_extra=extra, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer, needed = super().get_route_handler(), self.needed
        params = [field for field in get_flat_params(self.dependant) if isinstance(field.field_info, Query)]
        known = {field.alias for field in params}

        async def guarded(request: Request) -> Response:
            services = services_of(request)
            caller = await run_in_threadpool(identify, request, services.database, services.clock())
            request.state.caller = caller
            if not caller.role.covers(needed):
                detail = f"this takes a token of role {needed}; {caller.name!r} has role {caller.role}"
                raise ApiError(403, "forbidden", detail, facts={"needs": needed, "role": caller.role})
            if unknown := sorted(request.query_params.keys() - known):
                raise _unknown(unknown[:20], known)
            key = request.headers.get(KEY_HEADER)
            if request.method != "POST" or key is None:
                return await answer(request)
            if not 0 < len(key) <= 200 or not key.isprintable():
                raise ApiError(400, "bad-idempotency-key", f"{KEY_HEADER} has 1 to 200 printable characters")
            return await _once(request, services, caller, key, answer)

        return guarded


def _unknown(names: Iterable[str], known: Collection[str]) -> ApiError:
    """A filter that is misspelt would otherwise filter nothing, and nobody would know."""
    hint = {name: nearest_name(name, known) if known else "this takes none" for name in names}
    errors = [field_problem(("query", name), f"no such parameter; {hint[name]}") for name in hint]
    first = next(iter(hint))
    return ApiError(422, "invalid", f"query: no parameter {first[:200]!r}; {hint[first]}", errors=errors)


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesOf = Annotated[Services, Depends(services_of)]


def _acting(caller: CallerOf, services: ServicesOf) -> ActionContext:
    return ActionContext(services.database, services.clock(), caller.actor, caller.name, current_trace.get())


ActOf = Annotated[ActionContext, Depends(_acting)]
"""Who calls, for routes that change something: every action takes it."""


async def _once(
    request: Request,
    services: Services,
    caller: Caller,
    key: str,
    answer: Callable[[Request], Coroutine[Any, Any, Response]],
) -> Response:
    """The first good answer under a key is the answer. One that is a refusal changed nothing, and is not kept."""
    content = hashlib.sha256(f"{request.method}\0{request.url.path}\0{request.url.query}\0".encode())
    content.update(await request.body())
    asked = IdempotentRequest(caller.token_id, caller.secret, key, content.digest())
    answers = PostgresAnswers(services.database)
    try:
        kept = await run_in_threadpool(answers.begin, asked, services.clock(), _IN_FLIGHT)
    except AnswerOnItsWay:
        detail = "the first request under this Idempotency-Key is being worked on: ask again"
        raise ApiError(409, "request-in-flight", detail, headers={"Retry-After": "1"}) from None
    except OtherRequestError as error:
        raise ApiError(422, "idempotency-key-reused", str(error)) from None
    if kept is not None:
        old = msgspec.msgpack.decode(kept, type=_StoredResponse)
        return Response(old.body, old.status, old.headers | {"Idempotency-Replayed": "true"})
    try:
        response = await answer(request)
    except BaseException:
        await run_in_threadpool(answers.forget, asked)
        raise
    if response.status_code >= 300 or not hasattr(response, "body"):  # a refusal changed nothing: try again
        await run_in_threadpool(answers.forget, asked)
        return response
    headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
    new = msgspec.msgpack.encode(_StoredResponse(response.status_code, headers, bytes(response.body)))
    await run_in_threadpool(answers.keep, asked, new)
    return response
