"""A value that Terraform does not know yet."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value as it came: what Terraform already knows of it (that it is not null, say) has to go back unchanged."""

    code: int = 0
    data: bytes = b"\x00"


UNKNOWN = Unknown()
"""Known after apply."""


def is_known(value: Any) -> bool:
    """Return whether all of a value, however deep, is known."""
    if isinstance(value, dict):
        return all(is_known(each) for each in value.values())
    if isinstance(value, list):
        return all(is_known(each) for each in value)
    return not isinstance(value, Unknown)
