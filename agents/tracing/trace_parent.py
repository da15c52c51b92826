"""W3C Trace Context: the `traceparent` header as a value (https://www.w3.org/TR/trace-context/)."""

import random
import re
from dataclasses import dataclass

_FORM = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(-.*)?"
)
_ZERO = {"0" * 32, "0" * 16}


@dataclass(frozen=True, slots=True)
class TraceParent:
    trace_id: str
    """32 hexadecimal digits, the same from the client to the engine."""
    span_id: str
    """16 of them: of who hands it on."""
    flags: str = "00"
    """01: whoever began it keeps its spans."""

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def child(self) -> "TraceParent":
        """Return the parent that a receiver hands on."""
        return TraceParent(self.trace_id, _digits(16), self.flags)


def _digits(count: int) -> str:
    """Hexadecimal, random. Ids are no secrets: asking the system for each costs more than routing a request."""
    return f"{random.getrandbits(4 * count) or 1:0{count}x}"


def read_trace_parent(text: str) -> TraceParent | None:
    """Read a `traceparent`; None for what is no valid one. Versions to come are read as the standard asks."""
    match = _FORM.fullmatch(text[:256])
    if match is None or match["version"] == "ff" or {match["trace"], match["span"]} & _ZERO:
        return None
    if match["version"] == "00" and match[5]:
        return None
    return TraceParent(match["trace"], match["span"], match["flags"])


def trace_id(text: str) -> str | None:
    """Read the trace id of a `traceparent`; None where there is none."""
    parent = read_trace_parent(text)
    return None if parent is None else parent.trace_id


def new_trace_parent() -> TraceParent:
    return TraceParent(_digits(32), _digits(16))
