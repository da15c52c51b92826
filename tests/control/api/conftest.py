"""The real app on a real PostgreSQL, and callers of every role."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from control.access.role import Role
from control.api.app import create_app
from control.api.settings import ApiSettings
from control.api.work.pool import WorkPool
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database

SETTINGS = ApiSettings(stream_poll_s=0.05, heartbeat_s=0.2, samples_load=False, workers=0, needs_isolation=False)
"""No workers: tests that need one start their own. No sampler: at a whole minute it would add to what tests count."""


def now() -> datetime:
    return datetime.now(UTC)


def app_of(database: Database, home: Path, settings: ApiSettings = SETTINGS) -> FastAPI:
    pool = WorkPool(database, settings, os.environ)
    return create_app(database, settings, now, pool, home)


@pytest.fixture
def app(database: Database, tmp_path: Path) -> FastAPI:
    return app_of(database, tmp_path)


def token_of(database: Database, role: Role) -> str:
    return PostgresApiTokens(database).create(f"a {role}", role, now())[1].reveal()


@dataclass(frozen=True)
class Api:
    """Calls as the holder of one token; `.raw` sends none."""

    raw: TestClient
    token: str

    def __call__(self, method: str, path: str, json: Any = None, **headers: str) -> Any:
        sent = {"Authorization": f"Bearer {self.token}"} | {name.replace("_", "-"): v for name, v in headers.items()}
        return self.raw.request(method, f"/api/v1{path}", json=json, headers=sent)

    def get(self, path: str, **headers: str) -> Any:
        return self("GET", path, None, **headers)

    def post(self, path: str, json: Any = None, **headers: str) -> Any:
        return self("POST", path, json, **headers)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def admin(client: TestClient, database: Database) -> Api:
    return Api(client, token_of(database, Role.ADMIN))


@pytest.fixture
def operator(client: TestClient, database: Database) -> Api:
    return Api(client, token_of(database, Role.OPERATOR))


@pytest.fixture
def viewer(client: TestClient, database: Database) -> Api:
    return Api(client, token_of(database, Role.VIEWER))
