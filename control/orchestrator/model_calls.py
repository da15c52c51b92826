"""Calls of models: OpenAI's chat, over HTTP, at Medley's gateway."""

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
_KNOWN_S = 10.0
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

    def call(self, name: str, given: bytes, project: str, headers: Mapping[str, str], until_s: float) -> Answered:
        """Ask a model. `given`: the arguments of the call, without slots; `until_s`: by the monotonic clock. What the
        gateway refuses, or does not answer in time, is a failure."""
        try:
            body = chat_body(name, given)
        except NO_GATEWAY as error:
            return _failed(name, str(error))
        pause_s, why = 0.1, "its time was over before it was asked"
        while (left_s := until_s - time.monotonic()) > 0:
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
        return _failed(name, why)

    def most_usd(self, name: str, given: bytes, project: str) -> float | None:
        """Return what a call costs at the most, by the gateway's price of a token now: no token is shorter than a byte.
        None: nobody says what the model costs."""
        terms = self._terms_of(name, project)
        if terms is None or terms.usd_per_token is None:
            return None
        try:
            body = chat_body(name, given)
        except NO_GATEWAY:
            return 0.0  # it will be refused, unasked
        prompt = sum(len(str(each.get("content", "")).encode()) + _MESSAGE_TOKENS for each in body["messages"])
        answer = body.get("max_completion_tokens", body.get("max_tokens"))
        most = terms.most_tokens if not isinstance(answer, int) else min(terms.most_tokens, prompt + answer)
        return most * terms.usd_per_token

    def _answered(self, name: str, project: str, answer: Any) -> Answered:
        reply, terms = reply_of(answer), self._terms_of(name, project)
        price = 0.0 if terms is None or terms.usd_per_token is None else terms.usd_per_token
        return Answered(msgspec.msgpack.encode(reply), usd=price * (reply.prompt_tokens + reply.output_tokens))

    def _terms_of(self, name: str, project: str) -> _Terms | None:
        """None: the gateway does not say, or not now."""
        with self._lock:
            try:
                if self._read_s.get(project, float("-inf")) + _KNOWN_S < time.monotonic():
                    listed = asked(f"{self._url}/v1/models", self._key_of(project), None, {}, _KNOWN_S)["data"]
                    self._terms[project] = {each["id"]: _terms(each) for each in listed}
                    self._read_s[project] = time.monotonic()
            except (*NOT_THERE, *NO_GATEWAY):
                return None
            return self._terms[project].get(name)


def _terms(listed: Mapping[str, Any]) -> _Terms:
    per_million = listed.get("usd_per_million_tokens")
    return _Terms(None if per_million is None else float(per_million) / 1e6, int(listed["context_tokens"]))


def _failed(name: str, reason: str) -> Answered:
    return Answered(failure=Failure("call", f"model {name}: {reason}"))
