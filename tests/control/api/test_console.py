"""The console's bundle as the API serves it."""

import os
import socket
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from control.api.app import routed
from control.api.caller import COOKIE
from control.api.console import Console
from control.api.failures import tell_failures
from control.api.settings import ApiSettings
from control.api.thread import serving_in_thread

_PAGE = '<meta name="medley-session" content="MEDLEY-SESSION"><script nonce="MEDLEY-CSP-NONCE"></script>'


def _client(bundle: Path) -> TestClient:
    app = FastAPI(docs_url=None, redoc_url=None)
    app.router.default = Console(bundle)
    tell_failures(app)
    return TestClient(app)


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(_PAGE)
    (tmp_path / "assets" / "index-1.js").write_text("export {};\n" * 200)
    (tmp_path.parent / "outside.txt").write_text("not of the bundle")
    return _client(tmp_path)


def test_every_path_of_a_page_leads_to_the_page_with_a_fresh_nonce(client: TestClient) -> None:
    first, second = client.get("/"), client.get("/fleet/i1")
    nonces = []
    for answer in (first, second):
        assert answer.headers["content-type"].startswith("text/html")
        policy = answer.headers["content-security-policy"]
        nonce = policy.partition("'nonce-")[2].partition("'")[0]
        assert f'nonce="{nonce}"' in answer.text
        assert "unsafe" not in policy
        assert "http" not in policy
        nonces.append(nonce)
    assert nonces[0] != nonces[1]


def test_the_page_is_told_whether_there_is_a_session(client: TestClient) -> None:
    assert 'content="none"' in client.get("/").text
    assert 'content="some"' in client.get("/", headers={"Cookie": f"{COOKIE}=anything"}).text


def test_assets_are_kept_by_browsers_and_packed(client: TestClient) -> None:
    answer = client.get("/assets/index-1.js")
    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    plain = client.get("/assets/index-1.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/assets/gone.js",
        "/../outside.txt",
        "/..%2foutside.txt",
        "/%2e%2e/outside.txt",
        "/api/v1/nothing",
        "/api",
        "/docs",
    ],
)
def test_what_is_not_of_the_bundle_is_not_there(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_pages_are_only_read(client: TestClient) -> None:
    assert client.post("/fleet").status_code == 404


def test_without_a_bundle_the_answer_says_how_to_build_it(tmp_path: Path) -> None:
    answer = _client(tmp_path / "none").get("/")
    assert answer.status_code == 404
    assert "make web" in answer.json()["detail"]


def test_the_document_needs_no_database() -> None:
    assert "/api/v1/fleets" in routed().openapi()["paths"]


def test_it_is_served_beside_what_a_process_does_and_ends_with_it(database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = ApiSettings(port=taken.getsockname()[1], workers=0)
        with serving_in_thread(settings, database_url, os.environ) as url:
            assert not url.endswith(f":{settings.port}")
            assert httpx.get(f"{url}/readyz", timeout=60).json() == {"status": "ready"}
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/readyz", timeout=60)
