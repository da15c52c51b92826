"""A gateway as commands ask it: its models, and answers as they come."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from control.printable import printable

_TIMEOUT_S = 600.0
_LOOK_S = 10.0
_MAX_BYTES = 16 << 20
_REDIRECTS = (301, 302, 303, 307, 308)


class NoAnswerError(ValueError):
    """The gateway is not there, or refuses: the message says why, with nothing that a terminal would obey."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


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
        read = self._read("/v1/models")
        with self._shaped("/v1/models"):
            return _names(each["id"] for each in read["data"])

    def ready(self) -> list[str]:
        """List models that it can serve now."""
        read = self._read("/readyz", (503,))
        with self._shaped("/readyz"):
            return _names(read["ready"])

    def chat(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield an answer of /v1/chat/completions as it comes, with its usage at the end. Close it to end it early."""
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        with closing(self._open("/v1/chat/completions", json.dumps(asked).encode(), _TIMEOUT_S)) as answer:
            for event in _events(answer, self.url):
                with self._shaped("/v1/chat/completions"):
                    deltas = list(_deltas(event))
                yield from deltas

    @contextmanager
    def _shaped(self, path: str) -> Iterator[None]:
        """Raise NoAnswerError where the block finds other JSON than a gateway answers with."""
        try:
            yield
        except (LookupError, TypeError, AttributeError):
            raise NoAnswerError(f"{self.url}{path} answers with other JSON than a gateway: is it one?") from None

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
            return urllib.request.build_opener(_Stays).open(request, timeout=timeout_s)
        except urllib.error.HTTPError as error:
            if error.code in also:
                return error
            if error.code in _REDIRECTS:
                to = error.headers.get("location", "nowhere")
                raise NoAnswerError(f"{self.url} sends on to {to}: name that with --gateway, if you trust it") from None
            raise NoAnswerError(f"{self.url} refuses: {_reason(error)}") from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", error)
            raise NoAnswerError(f"no gateway answers at {self.url}: {why}") from None


class _Stays(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: urllib would take the key along, to any host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _names(found: Iterable[Any]) -> list[str]:
    """Raises TypeError for what are no names, or none that can be shown."""
    names = list(found)
    if not all(isinstance(name, str) and name.isprintable() for name in names):
        raise TypeError
    return names


def _deltas(event: Mapping[str, Any]) -> Iterator[Delta]:
    for choice in event["choices"]:
        delta = choice["delta"]
        yield Delta(delta.get("content") or "", delta.get("reasoning") or "")
    usage = event.get("usage")
    if usage:
        if not all(isinstance(usage[name], int) for name in ("prompt_tokens", "completion_tokens")):
            raise TypeError
        yield Delta(usage=usage)


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
    except (json.JSONDecodeError, LookupError, TypeError):
        raise NoAnswerError(f"{url} answers with other events than a gateway: is it one?") from None
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswerError(f"{url} was lost amid the answer: {error}") from None


def _reason(error: urllib.error.HTTPError) -> str:
    """Return what a gateway says of it, or the status of whatever else answers."""
    try:
        said: str = json.loads(error.read(_MAX_BYTES))["error"]["message"]
    except (ValueError, LookupError, TypeError, OSError, http.client.HTTPException):
        return f"HTTP {error.code} {error.reason}"
    return said
