"""Result of looking at one thing that this machine may need."""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    OK = "ok"
    MISSING = "missing"
    """Not here, which matters to those who want what it is for."""
    BROKEN = "broken"
    """Nothing works until it is mended."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    """What was looked at, such as `cloud.aws`: for programs."""
    health: Health
    detail: str
    """What was found and, unless it is well, what to do."""
