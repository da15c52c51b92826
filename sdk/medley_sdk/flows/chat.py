"""OpenAI's chat, as calls of models are asked for and answered, over HTTP."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from medley_sdk.flows.calls import Reply
from medley_sdk.flows.messages import MOST_RESULT_BYTES
from medley_sdk.packing import unpacked

NOT_THERE = (OSError, http.client.HTTPException)
"""Raised where no gateway answers; `urllib.error.HTTPError`, where it refuses, is one of these."""
NO_GATEWAY = (ValueError, LookupError, TypeError)
"""Raised where what answers is no gateway."""


def gateway_url(given: str) -> str:
    """Raises ValueError for what is no URL."""
    if not given.startswith(("http://", "https://")):
        raise ValueError(f"--gateway {given!r} is no URL; it looks like http://HOST:8000")
    return given.rstrip("/").removesuffix("/v1")


def asked(url: str, key: str, body: Mapping[str, Any] | None, headers: Mapping[str, str], most_s: float) -> Any:
    """Return the JSON at a URL of a gateway. `body`: to POST. Raises as `NOT_THERE` and `NO_GATEWAY`."""
    sent = {"content-type": "application/json", **headers} | ({"authorization": f"Bearer {key}"} if key else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, sent)  # noqa: S310 - `gateway_url` lets HTTP through alone
    with _OPENER.open(request, timeout=most_s) as answer:
        return json.loads(answer.read(MOST_RESULT_BYTES))


def chat_body(name: str, given: bytes) -> dict[str, Any]:
    """Return the request of a call. `given`: its arguments, without slots. Raises ValueError for what is none."""
    (messages,), params = unpacked(given, ())
    if isinstance(messages, str) or _is_reply(messages):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise ValueError("is asked with a text, or a list of messages such as {'role': 'user', 'content': ...}")
    if params.get("n") not in (None, 1):
        raise ValueError(f"is asked for n={params['n']!r} answers; a call gives one: call it as often")
    plain = [{**each, "content": _text(each.get("content"))} for each in messages]
    return {**params, "model": name, "messages": plain, "stream": False}


def reply_of(answer: Any) -> Reply:
    """Raises as `NO_GATEWAY`."""
    (choice,) = answer["choices"]
    usage = answer["usage"]
    text, reason = choice["message"]["content"] or "", choice["finish_reason"] or ""
    return Reply(str(text), str(reason), int(usage["prompt_tokens"]), int(usage["completion_tokens"]))


def refusal(error: urllib.error.HTTPError) -> str:
    """Return what a gateway says of it, or the status of whatever else answers."""
    try:
        said: str = json.loads(error.read(1 << 20))["error"]["message"]
    except (*NO_GATEWAY, *NOT_THERE):
        return f"HTTP {error.code} {error.reason}"
    return said


class _Stays(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: urllib would take the key along, to any host."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stays)


def _is_reply(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == set(Reply.__struct_fields__)


def _text(content: Any) -> Any:
    """The text of another model's reply stands for it; several texts are one."""
    if _is_reply(content):
        return content["text"]
    if isinstance(content, list) and all(isinstance(each, str) or _is_reply(each) for each in content):
        return "".join(each if isinstance(each, str) else each["text"] for each in content)
    return content
