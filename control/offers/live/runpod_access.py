"""Access to RunPod's GraphQL interface; each of its failures becomes a SourceError.

The key is that of RunPod's own tools: RUNPOD_API_KEY, else `api_key` in ~/.runpod/config.toml; so is the address,
RUNPOD_API_BASE_URL.
"""

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from control.access.secret import Secret
from control.offers.live.bounds import MAX_BYTES
from control.offers.live.source import NoAccessError, NoAnswerError

T = TypeVar("T")

_ADDRESS = "https://api.runpod.io"


def ask_runpod(environment: Mapping[str, str], query: str, read: Callable[[Mapping[str, Any]], T]) -> T:
    """Ask once, with retries, and return what `read` takes out of the answer's data. `environment`: of the process.
    Raises SourceError, also where `read` does not find what it looks for."""
    content = _asked(environment, query)
    try:
        said = json.loads(content)
        if said.get("errors"):
            raise NoAnswerError(f"RunPod: {str(said['errors'][0].get('message', ''))[:300]}")
        return read(said["data"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise NoAnswerError(f"RunPod's answer is not what it documents: {type(error).__name__} {error}") from None


def _asked(environment: Mapping[str, str], query: str) -> bytes:
    import urllib3  # of the `clouds` extra

    address = environment.get("RUNPOD_API_BASE_URL") or _ADDRESS
    _check(address)
    key = _key(environment)
    # A read: it may be repeated although it is a POST.
    retry = urllib3.Retry(
        4, redirect=0, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None, backoff_factor=0.5,
        raise_on_status=False,
    )  # fmt: skip
    pool = urllib3.PoolManager(timeout=urllib3.Timeout(connect=5, read=20), retries=retry)
    headers = {"Authorization": f"Bearer {key.reveal()}", "Content-Type": "application/json"}
    body = json.dumps({"query": query})
    try:
        answer = pool.request("POST", f"{address}/graphql", body=body, headers=headers, preload_content=False)
        status, content = answer.status, answer.read(MAX_BYTES + 1)
        answer.release_conn()
    except urllib3.exceptions.HTTPError as error:
        raise NoAnswerError(f"RunPod at {address}: {error}") from None
    finally:
        pool.clear()
    if status in (401, 403):
        raise NoAccessError(f"RunPod does not take the API key ({status}): make another one in its settings")
    if status != 200:
        raise NoAnswerError(f"RunPod at {address} answers with status {status}")
    if len(content) > MAX_BYTES:
        raise NoAnswerError(f"RunPod at {address} answers with more than {MAX_BYTES} bytes")
    return content


def _check(address: str) -> None:
    """The key goes there."""
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise NoAccessError(f"RUNPOD_API_BASE_URL {address}: must begin with https://, or be on this machine")


def _key(environment: Mapping[str, str]) -> Secret:
    given = environment.get("RUNPOD_API_KEY")
    file = Path(environment.get("HOME") or "~").expanduser() / ".runpod" / "config.toml"
    if not given and file.exists():
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise NoAccessError(f"{file} cannot be read: write it again with `runpod config`") from None
        profile = content.get("default", content)
        given = profile.get("api_key") if isinstance(profile, dict) else None
    if not isinstance(given, str) or not given.isprintable() or not given:
        raise NoAccessError(f"no RunPod API key was found: set RUNPOD_API_KEY, or api_key in {file}")
    return Secret(given)
