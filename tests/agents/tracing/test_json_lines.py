"""Log lines of JSON, each with the moment at which it was logged."""

import json
import logging
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from agents.tracing.json_lines import JsonLines

MILLISECONDS = st.integers(0, 4_000_000_000_000)


def line(formatter: JsonLines, created_ms: int) -> dict[str, object]:
    record = logging.LogRecord("a.logger", logging.WARNING, "", 0, "%s went", ("one",), None)
    record.created, record.msecs = created_ms / 1000, created_ms % 1000
    record.request = "req-1"
    return dict(json.loads(formatter.format(record)))


@given(st.lists(MILLISECONDS | st.integers(0, 3000), max_size=20))
def test_each_line_has_its_own_time_whatever_came_before(moments: list[int]) -> None:
    formatter = JsonLines({"worker": 1})
    for moment in moments:
        found = line(formatter, moment)
        assert datetime.fromisoformat(str(found.pop("time"))) == datetime.fromtimestamp(moment // 1000, UTC).replace(
            microsecond=moment % 1000 * 1000
        )
        assert found == {
            "level": "warning",
            "logger": "a.logger",
            "message": "one went",
            "worker": 1,
            "request": "req-1",
        }
