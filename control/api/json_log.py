"""Logs for machines: one JSON object a line, each with the trace id of its request."""

import json
import logging
from datetime import UTC, datetime

from control.api.trace import current_trace

EXTRA = ("method", "path", "status", "duration_ms", "caller", "operation")
"""Attributes of a record that stand in its line where they are set."""


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if trace := current_trace.get():
            line["trace_id"] = trace
        line |= {name: getattr(record, name) for name in EXTRA if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_json() -> None:
    """All logs of this process go to stderr in this form."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
