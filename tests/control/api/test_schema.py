"""The OpenAPI document and the app agree: no 5xx, no answer that is not documented, whatever is sent."""

from typing import Any

import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from control.access.role import Role
from control.db.database import Database
from tests.control.api.conftest import token_of

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    missing_required_header,
    unsupported_method,
]


def broken(app: FastAPI, token: str, examples: int) -> dict[str, str]:
    """Operation → what is wrong with it."""
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    found: dict[str, str] = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith(":follow"):
            continue  # without an end; `test_streams` follows them

        @settings(
            max_examples=examples, deadline=None, database=None, derandomize=True,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def agrees(case: Any) -> None:
            case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=CHECKS)

        try:
            agrees()
        except Exception as error:
            found[operation.label] = str(error)
    return found


def test_nothing_breaks(app: FastAPI, database: Database) -> None:
    assert broken(app, token_of(database, Role.ADMIN), examples=5) == {}
