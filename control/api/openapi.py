"""Parts of the OpenAPI document beyond what routes and schemas say by themselves."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from control.api.caller import COOKIE, CSRF_HEADER
from control.api.problem import Problem

_TEXT = """Everything that the console, the Terraform provider and people's own programs do with Medley.

Lists come in pages by cursor; writes to what exists need `If-Match`; a POST with `Idempotency-Key` may be repeated;
long work answers 202 with an operation to follow; every refusal is `application/problem+json`. `x-medley-role` says
what token each call takes. docs/api.md tells more."""
_SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "`medley token create` makes one."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": f"Of POST /api/v1/session; unsafe methods also need {CSRF_HEADER}.",
    },
}


def describe(app: FastAPI) -> None:
    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, description=_TEXT, routes=app.routes)
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    if "Problem" not in schemas:
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= problem.pop("$defs", {}) | {"Problem": problem}
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = _SECURITY
    return document
