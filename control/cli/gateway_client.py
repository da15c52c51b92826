"""A gateway as commands ask it: its models, and answers as they come."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

_TIMEOUT_S = 600.0
_LOOK_S = 10.0
_MAX_BYTES = 16 << 20


class NoAnswerError(ValueError):
    """The gateway is not there, or refuses: the message says why."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Some of an answer."""

    text: str = ""
    reasoning: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """With the last one."""


class GatewayClient:
    def __init__(self, url: str, key: str) -> None:
        """`key`: empty where none is needed. Raises ValueError for what is no URL."""
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"--gateway {url!r} is no URL; it looks like http://HOST:8000")
        self.url = url.rstrip("/").removesuffix("/v1")
        self._key = key

    def models(self) -> list[str]:
        """Raises NoAnswerError, as everything here."""
        return [each["id"] for each in self._read("/v1/models")["data"]]

    def ready(self) -> list[str]:
        """List models that it can serve now."""
        found: list[str] = self._read("/readyz", (503,))["ready"]
        return found

    def chat(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield an answer of /v1/chat/completions as it comes, with its usage at the end. Close it to end it early."""
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        with closing(self._open("/v1/chat/completions", json.dumps(asked).encode(), _TIMEOUT_S)) as answer:
            for event in _events(answer, self.url):
                for choice in event["choices"]:
                    delta = choice["delta"]
                    yield Delta(delta.get("content") or "", delta.get("reasoning") or "")
                if event.get("usage"):
                    yield Delta(usage=event["usage"])

    def _read(self, path: str, also: tuple[int, ...] = ()) -> Any:
        """Return the JSON at a path. `also`: statuses beside 200 whose body is the answer."""
        with closing(self._open(path, None, _LOOK_S, also)) as answer:
            try:
                return json.loads(answer.read(_MAX_BYTES))
            except (ValueError, OSError, http.client.HTTPException) as error:
                raise NoAnswerError(f"{self.url}{path} answers with no JSON ({error}): is it a gateway?") from None

    def _open(self, path: str, data: bytes | None, timeout_s: float, also: tuple[int, ...] = ()) -> Any:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {self._key}"} if self._key else {})
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310 - see above
        try:
            return urllib.request.urlopen(request, timeout=timeout_s)  # noqa: S310
        except urllib.error.HTTPError as error:
            if error.code in also:
                return error
            raise NoAnswerError(f"{self.url} refuses: {_reason(error)}") from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", error)
            raise NoAnswerError(f"no gateway answers at {self.url}: {why}") from None


def _events(answer: Any, url: str) -> Iterator[dict[str, Any]]:
    try:
        for raw in answer:
            line = raw.decode(errors="replace").strip()
            data = line.removeprefix("data: ")
            if data in (line, "[DONE]"):
                continue
            event = json.loads(data)
            if "error" in event:
                raise NoAnswerError(f"{url} gives up amid the answer: {event['error']['message']}")
            yield event
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswerError(f"{url} was lost amid the answer: {error}") from None


def _reason(error: urllib.error.HTTPError) -> str:
    """Return what a gateway says of it, or the status of whatever else answers."""
    try:
        said: str = json.loads(error.read(_MAX_BYTES))["error"]["message"]
    except (ValueError, LookupError, TypeError, OSError, http.client.HTTPException):
        return f"HTTP {error.code} {error.reason}"
    return said
