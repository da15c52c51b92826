"""A proxy that does what it is asked and, the first time of each change, loses the answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.http_endpoint import Asked, Said, serving

_PASSED = ("authorization", "content-type", "idempotency-key", "if-match", "if-none-match")
_PASSED_BACK = ("content-type", "etag", "location", "retry-after", "idempotency-replayed")


@contextmanager
def lossy_proxy(url: str) -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the changes whose answers were lost."""
    lost: list[str] = []
    lock = threading.Lock()

    def passed_on(asked: Asked) -> Said | None:
        headers = {name: asked.headers[name] for name in _PASSED if name in asked.headers}
        answer = httpx.request(asked.method, f"{url}{asked.path}", content=asked.body, headers=headers, timeout=240)
        change = f"{asked.method} {asked.path}"
        with lock:
            if asked.method != "GET" and change not in lost:
                lost.append(change)
                return None
        back = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
        return Said(answer.content, answer.status_code, back)

    with serving(passed_on) as endpoint:
        yield endpoint.url, lost
