"""What resources that have a name and a version share."""

from collections.abc import Callable

from medley_terraform.client import Json
from medley_terraform.failure import Failure
from medley_terraform.types import Scalar, computed

ID = computed("id", "Refer to it where what refers needs this to be there first.")
VERSION = computed(
    "version",
    "Counts changes. A change is refused when it was planned on another version than the newest.",
    Scalar.NUMBER,
)


def already_there(kind: str, name: str, failure: Failure) -> Failure:
    """Return the failure, and where it is a 409 of what is created, say what to do about it."""
    if failure.name != "conflict":
        return failure
    detail = f"{failure.detail}. To manage what is there: terraform import {kind}.NAME '{name}'"
    return Failure(failure.name, detail, failure.status, failure.errors, failure.facts, failure.trace_id)


def settled(put: Callable[[], Json], find: Callable[[], Json | None], is_wanted: Callable[[Json], bool]) -> Json:
    """Return what a conditional write has made. An answer may have been lost: when it is refused for its version, but
    what is there is what was to be written, it was written."""
    try:
        return put()
    except Failure as failure:
        if failure.name == "precondition-failed" and (there := find()) is not None and is_wanted(there):
            return there
        raise
