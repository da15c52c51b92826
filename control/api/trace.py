"""One trace id for a request, from whoever called first to the last log line (W3C Trace Context)."""

import re
import secrets
from contextvars import ContextVar

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

current_trace: ContextVar[str] = ContextVar("current_trace", default="")


def trace_id_of(traceparent: str | None) -> str:
    """The caller's, or a new one."""
    found = _TRACEPARENT.fullmatch(traceparent or "")
    return found[1] if found else secrets.token_hex(16)
