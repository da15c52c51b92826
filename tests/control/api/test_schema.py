"""The OpenAPI document and the app agree: no 5xx, no answer that is not documented, whatever is sent."""

from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
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
from tests.control.api.conftest import Api, now, token_of
from tests.control.api.worlds import kept_plan, serving, spec

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


@pytest.fixture
def there(admin: Api, database: Database) -> dict[str, str]:
    """One of everything: path parameter → its name."""
    assert admin.post("/fleets", {"spec": spec(), "mode": "approve"}).status_code == 201
    plan = kept_plan(database, "chat")
    instance = serving(database, "chat", now())
    admin("PUT", "/budgets/fleet/chat", {"usd_per_hour_limit": 5.0}, If_None_Match="*")
    hook = {"url": "https://127.0.0.1/", "secret": "env:MEDLEY_WEBHOOK_OPS"}  # which nothing is sent to
    assert admin("PUT", "/webhooks/ops", hook, If_None_Match="*").status_code == 201
    pushed = {"source": "from medley_sdk import workflow\n\n\n@workflow\nasync def one() -> int:\n    return 1\n"}
    assert admin.post("/workflows", pushed).status_code == 201
    return {
        "workflow": "one",
        "run": admin.post("/workflows/one/runs", {}).json()["id"],
        "webhook": "ops",
        "project": "default",
        "fleet": "chat",
        "app": "vl",  # which this fleet has not
        "name": "chat",
        "scope": "fleet",
        "plan": plan.id,
        "version": plan.library_version,
        "instance": instance.id,
        "template": plan.instances[0].template_id,
        "model": "smollm2-135m-instruct",
        "operation_id": admin.post("/plans", {"fleet": "chat"}).json()["id"],
        "key": "k1",
        "token_id": admin.post("/tokens", {"name": "x", "role": "viewer"}).json()["id"],
    }


def broken(app: FastAPI, token: str, there: dict[str, str], examples: int) -> dict[str, str]:
    """Operation → what is wrong with it."""
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    found: dict[str, str] = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith(":follow"):
            continue  # without an end; `test_streams` follows them

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(), known=st.booleans())
        def agrees(case: Any, known: bool) -> None:
            if known:  # what is there, as if it had just been read
                for name in case.path_parameters or {}:
                    case.path_parameters[name] = there[name]
                if "If-Match" in (case.headers or {}):
                    case.headers["If-Match"] = '"1"'
            case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=CHECKS)

        try:
            agrees()
        except Exception as error:
            found[operation.label] = str(error)
    return found


def test_nothing_breaks(app: FastAPI, database: Database, there: dict[str, str]) -> None:
    assert broken(app, token_of(database, Role.ADMIN), there, examples=4) == {}


@pytest.mark.slow
def test_nothing_breaks_however_long_one_tries(app: FastAPI, database: Database, there: dict[str, str]) -> None:
    assert broken(app, token_of(database, Role.ADMIN), there, examples=40) == {}


def test_every_operation_says_who_may_call_it(app: FastAPI) -> None:
    paths = app.openapi()["paths"]
    operations = [o for path, methods in paths.items() if path.startswith("/api/v1") for o in methods.values()]
    unguarded = [o["operationId"] for o in operations if "x-medley-role" not in o]
    assert unguarded == ["sign_in"]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
