"""SkyPilot's own log of a launch, of which its answer tells a part."""

import re
from itertools import takewhile

_BROKE = re.compile(r"^(\w \d\d-\d\d [\d:.]+ PID=\d+ \S+\]).* failed\. Stacktrace:$", re.MULTILINE)
"""First line of the record of it; each line of a record begins with the same time and place."""
_TRACEBACK = "Traceback (most recent call last):"


def cause_in(log: str) -> str:
    """Return the exception with which the creation of a machine broke off, its type and words, which SkyPilot tells of
    in no other place; empty where none did."""
    cause = ""
    for broke in _BROKE.finditer(log):
        _, _, last = _rest_of_record(broke[1], log[broke.end() + 1 :]).rpartition(_TRACEBACK)
        cause = next((line for line in last.splitlines() if line and not line.startswith(" ")), "")
    return cause


def _rest_of_record(head: str, log: str) -> str:
    lines = takewhile(lambda line: line.startswith(head), log.splitlines())
    return "\n".join(line.removeprefix(head).removeprefix(" ") for line in lines)
