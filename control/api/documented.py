"""Parts of a route's OpenAPI document besides its own answer: every problem, and who may call it."""

from typing import Any

from control.access.role import Role
from control.api.problem import MEDIA_TYPE

ROLE = "x-medley-role"
_PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
_MEANINGS = {
    400: "The request cannot be read: broken JSON, a bad cursor, a malformed header.",
    401: "No token or session, or one that is wrong, expired or revoked.",
    403: "The role of the token does not cover this, or the CSRF token is missing.",
    404: "There is none of that name; the nearest is named.",
    408: "The body did not arrive in time.",
    409: "It conflicts with what is there; the detail says with what, and what to do.",
    410: "It is gone for good.",
    412: "It has changed since it was read: read it again.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "A field is wrong; every one is named with its path.",
    428: "If-Match is missing.",
    503: "The database does not answer, or there is too much to do: try again after Retry-After seconds.",
}
_EVERYWHERE = (400, 401, 403, 422, 503)
_WITH_BODY = (408, 413, 415)


def problems(*more: int, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route: problems that any may answer, and those of this one."""
    statuses = sorted({*_EVERYWHERE, *(_WITH_BODY if body else ()), *more})
    return {status: {"description": _MEANINGS[status], **_PROBLEM} for status in statuses}


def needs(role: Role) -> dict[str, Any]:
    """The `openapi_extra=` of a route, from which `GuardedRoute` enforces the role."""
    return {ROLE: role.value}
