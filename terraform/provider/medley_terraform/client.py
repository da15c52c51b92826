"""The admin API over HTTP. What is asked twice, since an answer was lost, is done once.

A POST carries an Idempotency-Key that follows from what is asked: whoever asks again, be it a later run of Terraform
whose forerunner was killed, is told what was made then. Changes are conditional (`If-Match`): repeated, they are
refused, and whoever asked looks whether what it wanted is there.
"""

import hashlib
import json
import os
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import certifi
import httpx

from medley_terraform import VERSION
from medley_terraform.failure import INTERRUPTED, UNREACHABLE, UNUSABLE, Failure, failure_of, not_medley

Json = dict[str, Any]
_PREFIX = "/api/v1"
_AGAIN = frozenset({429, 502, 503, 504})
_PAUSE_S = 0.3
_LONGEST_PAUSE_S = 10.0
_REQUEST_S = 60.0
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
PATIENCE_S = 150.0
"""Seconds to wait for an API that restarts, and for a request that its process took down: after two minutes another
process may take it over."""


class Client:
    """A client of one endpoint, with one token. Any number of threads may use it."""

    def __init__(self, endpoint: str, token: str, stopping: threading.Event) -> None:
        """`stopping`: set when Terraform wants to end; then nothing is waited for. Raises Failure where variables for
        proxies or certificates say what cannot be."""
        self._stopping = stopping
        try:
            self._http = httpx.Client(
                base_url=endpoint.rstrip("/") + _PREFIX,
                headers={"Authorization": f"Bearer {token}", "User-Agent": f"terraform-provider-medley/{VERSION}"},
                timeout=_REQUEST_S,
                follow_redirects=False,
                verify=_trust(),
                # As Terraform itself: no proxy for this machine
                trust_env=urlsplit(endpoint).hostname not in LOOPBACK,
            )
        except (OSError, ValueError) as error:
            raise Failure(UNUSABLE, str(error)) from None

    def get(self, path: str, query: Mapping[str, Any] | None = None, patience_s: float = PATIENCE_S) -> Json:
        return _body(self._send("GET", path, query=query, patience_s=patience_s))

    def find(self, path: str) -> Json | None:
        """None: there is none."""
        try:
            return self.get(path)
        except Failure as failure:
            if failure.name == "not-found":
                return None
            raise

    def pages(self, path: str, query: Mapping[str, Any]) -> list[Json]:
        """All items of a list."""
        items: list[Json] = []
        cursor: Mapping[str, Any] = {}
        while True:
            page = self.get(path, {**query, "limit": 200, **cursor})
            items += page["items"]
            if page["next"] is None:
                return items
            cursor = {"cursor": page["next"]}

    def create(self, path: str, body: Json, look: Callable[[Json], bool]) -> Json:
        """`look`: whether what an earlier answer to the same request speaks of is still there, as it was made, and
        nobody's else; if it is not, another one is made."""
        key = key_of(path, body)
        answer = self._send("POST", path, body, {"Idempotency-Key": key})
        if answer.headers.get("Idempotency-Replayed") and not look(_body(answer)):
            answer = self._send("POST", path, body, {"Idempotency-Key": f"{key}-{secrets.token_hex(8)}"})
        return _body(answer)

    def ask(self, path: str, body: Json, *, anew: bool) -> Json:
        """A POST that makes nothing to keep: not `anew`, the answer that was given to it within the last day."""
        key = key_of(path, body)
        if anew:
            self.forget(key)
        return _body(self._send("POST", path, body, {"Idempotency-Key": key}))

    def check(self, path: str, body: Json) -> Json:
        """A POST that changes nothing."""
        return _body(self._send("POST", path, body))

    def forget(self, key: str) -> None:
        self._send("DELETE", f"/idempotency-keys/{key}")

    def put(self, path: str, body: Json, version: int, query: Mapping[str, Any] | None = None) -> Json:
        """`version`: of what is replaced; 0: there is none yet."""
        condition = {"If-Match": f'"{version}"'} if version else {"If-None-Match": "*"}
        return _body(self._send("PUT", path, body, condition, query))

    def delete(self, path: str, version: int | None = None, query: Mapping[str, Any] | None = None) -> bool:
        """Return whether it is gone at once. What is not there is gone."""
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        try:
            return self._send("DELETE", path, None, headers, query).status_code != 202
        except Failure as failure:
            if failure.name == "not-found":
                return True
            raise

    def pause(self, seconds: float) -> None:
        """Raises Failure when Terraform wants to end meanwhile."""
        if self._stopping.wait(seconds):
            raise Failure(INTERRUPTED, "interrupted: what was asked for is not waited for")

    def _send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> httpx.Response:
        """Raises Failure for a refusal, and when nobody answers within `patience_s`."""
        deadline, pause_s = time.monotonic() + patience_s, _PAUSE_S
        while True:
            try:
                answer = self._http.request(method, path, json=body, headers=dict(headers or {}), params=query)
            except httpx.TransportError as error:
                failure = Failure(UNREACHABLE, f"{self._http.base_url} cannot be reached: {error}")
            else:
                if answer.is_success:
                    return answer
                failure = failure_of(answer) if answer.status_code >= 400 else not_medley(answer)
                if answer.status_code not in _AGAIN and failure.name != "request-in-flight":
                    raise failure
                pause_s = max(pause_s, _retry_after_s(answer))
            if time.monotonic() + pause_s > deadline:
                raise failure
            self.pause(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _trust() -> ssl.SSLContext:
    """Trust whom Terraform itself trusts: the authorities of this system, or those of SSL_CERT_FILE and SSL_CERT_DIR.
    Not every Python finds the system's, so those of Mozilla are added."""
    context = ssl.create_default_context()
    if not any(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")):
        context.load_verify_locations(certifi.where())
    return context


def key_of(path: str, body: Json) -> str:
    """The Idempotency-Key of a POST."""
    text = json.dumps([path, body], sort_keys=True, ensure_ascii=True)
    return f"terraform-{hashlib.sha256(text.encode()).hexdigest()}"


def _body(answer: httpx.Response) -> Json:
    if answer.status_code == 204:
        return {}
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise not_medley(answer)
    return found


def _retry_after_s(answer: httpx.Response) -> float:
    said = answer.headers.get("Retry-After", "")
    return min(float(said), _LONGEST_PAUSE_S) if said.isdigit() else 0.0
