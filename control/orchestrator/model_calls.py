"""Calls of models: OpenAI's chat, over HTTP, at Medley's gateway."""

import json
import threading
import time
import urllib.error
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from medley_sdk.flows.chat import NO_GATEWAY, NOT_THERE, asked, chat_body, gateway_url, refusal, reply_of
from medley_sdk.flows.messages import Failure

_AGAIN = (401, 408, 409, 425, 429, 500, 502, 503, 504)
"""Statuses after which the same may be asked again. 401: a key that was made a moment ago reaches gateways within
seconds."""
_MOST_PAUSE_S = 5.0
_LEAST_S = 1.0
"""Time of the first try of a call that waited for its turn longer than it may take."""
_KNOWN_S = 10.0
_NO_PROMPT = ("messages", "model")
"""Parts of a body that are counted otherwise, or not at all; numbers are none of the prompt either."""
_MESSAGE_TOKENS = 16
"""Tokens that a chat template may put around a message, beside its text."""


@dataclass(frozen=True, slots=True)
class Answered:
    value: bytes = b""
    failure: Failure | None = None
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the gateway says of a model."""

    usd_per_token: float | None
    most_tokens: int


class ModelCalls:
    """Threads may use it at the same time. `key_of`: the key with which a project's calls are made; empty: none is
    needed."""

    def __init__(self, url: str, key_of: Callable[[str], str]) -> None:
        """Raises ValueError for what is no URL."""
        self._url, self._key_of = gateway_url(url), key_of
        self._lock = threading.Lock()
        self._terms: dict[str, dict[str, _Terms]] = {}
        self._read_s: dict[str, float] = {}

    def call(
        self,
        name: str,
        given: bytes,
        project: str,
        headers: Mapping[str, str],
        until_s: float,
        is_over: Callable[[], bool],
    ) -> Answered:
        """Ask a model. `given`: the arguments of the call, without slots; `until_s`: by the monotonic clock; it is
        asked once however late it is, unless its run `is_over`. What the gateway refuses, or does not answer in time,
        is a failure."""
        try:
            body = chat_body(name, given)
        except NO_GATEWAY as error:
            return _failed(name, str(error))
        pause_s, why = 0.1, "its run was over before it was asked"
        left_s = max(_LEAST_S, until_s - time.monotonic())
        while left_s > 0 and not is_over():
            try:
                answer = asked(f"{self._url}/v1/chat/completions", self._key_of(project), body, headers, left_s)
                return self._answered(name, project, answer)
            except urllib.error.HTTPError as error:
                why = refusal(error)
                if error.code not in _AGAIN:
                    break
            except NOT_THERE as error:
                why = f"no gateway answers at {self._url}: {getattr(error, 'reason', error)}"
            except NO_GATEWAY:
                return _failed(name, f"{self._url} answers with other JSON than a gateway: is it one?")
            time.sleep(max(0.0, min(pause_s, until_s - time.monotonic())))
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)
            left_s = until_s - time.monotonic()
        return _failed(name, why)

    def most_usd(self, name: str, given: bytes, project: str) -> float | None:
        """Return what a call costs at the most, by the gateway's price of a token now: no token is shorter than a byte
        of what is asked, whichever part of the body has it; of pictures and sound, nothing is known but the model's
        context. None: nobody says what the model costs."""
        terms = self._terms_of(name, project)
        if terms is None or terms.usd_per_token is None:
            return None
        try:
            return _most_tokens(chat_body(name, given), terms.most_tokens) * terms.usd_per_token
        except NO_GATEWAY:
            return 0.0  # it will be refused, unasked

    def _answered(self, name: str, project: str, answer: Any) -> Answered:
        reply, terms = reply_of(answer), self._terms_of(name, project)
        price = 0.0 if terms is None or terms.usd_per_token is None else terms.usd_per_token
        return Answered(msgspec.msgpack.encode(reply), usd=price * (reply.prompt_tokens + reply.output_tokens))

    def _terms_of(self, name: str, project: str) -> _Terms | None:
        """Return what the gateway says now, or said last: an answer that has come is not free because a list is late.
        None: it has not said."""
        with self._lock:
            try:
                if self._read_s.get(project, float("-inf")) + _KNOWN_S < time.monotonic():
                    listed = asked(f"{self._url}/v1/models", self._key_of(project), None, {}, _KNOWN_S)["data"]
                    self._terms[project] = {each["id"]: _terms(each) for each in listed}
                    self._read_s[project] = time.monotonic()
            except (*NOT_THERE, *NO_GATEWAY):
                pass
            return self._terms.get(project, {}).get(name)


def _most_tokens(body: Mapping[str, Any], context: int) -> int:
    """Raises as `NO_GATEWAY` for a body that does not travel."""
    answer = body.get("max_completion_tokens", body.get("max_tokens"))
    if not isinstance(answer, int) or not all(map(_is_text, body["messages"])):
        return context
    params = (value for key, value in body.items() if key not in _NO_PROMPT and not isinstance(value, int | float))
    prompt = sum(map(_message_bytes, body["messages"])) + sum(len(json.dumps(each)) for each in params)
    return min(context, prompt + max(0, answer))


def _is_text(message: Mapping[str, Any]) -> bool:
    return message.get("content") is None or isinstance(message["content"], str)


def _message_bytes(message: Mapping[str, Any]) -> int:
    """Count the bytes of all that a message may bring into the prompt, such as calls of tools."""
    rest = {key: value for key, value in message.items() if key not in ("role", "content")}
    said = len((message.get("content") or "").encode()) + len(str(message.get("role", "")).encode())
    return said + _MESSAGE_TOKENS + (len(json.dumps(rest)) if rest else 0)


def _terms(listed: Mapping[str, Any]) -> _Terms:
    per_million = listed.get("usd_per_million_tokens")
    return _Terms(None if per_million is None else float(per_million) / 1e6, int(listed["context_tokens"]))


def _failed(name: str, reason: str) -> Answered:
    return Answered(failure=Failure("call", f"model {name}: {reason}"))
