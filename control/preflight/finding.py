"""Results of looking at one thing that a launch needs."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    UNKNOWN = "unknown"
    """It cannot be told from here before something is rented, or whoever knows could not be asked."""


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    """What was looked at, such as `engine.family`: for programs."""
    subject: str
    """Of what: a model, a cloud, a stage of a template."""
    status: Status
    detail: str
    """What was found and, unless it passes, what to do."""


def failing(found: Iterable[Finding]) -> tuple[str, ...]:
    """Return what fails, each with its subject."""
    return tuple(f"{each.subject}: {each.detail}" for each in found if each.status is Status.FAIL)
