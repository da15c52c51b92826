"""Logs as lines of JSON, one object each, for machines to search: by `trace` all that became of a request."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import msgspec

_EXTRA = ("trace", "request", "model", "instance", "status", "prompt_tokens", "output_tokens", "seconds")
"""Keys that a line has where the caller of the logger gives them."""


class JsonLines(logging.Formatter):
    def __init__(self, always: Mapping[str, Any]) -> None:
        super().__init__()
        self._always = always
        self._second, self._stamp = 0, "1970-01-01T00:00:00"

    def format(self, record: logging.LogRecord) -> str:
        second = int(record.created)
        if second != self._second:  # handlers format one record at a time
            self._second, self._stamp = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        line: dict[str, Any] = {
            "time": f"{self._stamp}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._always,
        }
        line |= {name: value for name in _EXTRA if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def log_json_lines(**always: Any) -> None:
    """Log to standard error, from now on, all of this process. `always`: what each line has besides."""
    # No line has these, and to find them out takes longer than to write it ("Optimization" of logging's documentation).
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(always))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
