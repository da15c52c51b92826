"""Moments in cursors."""

from datetime import datetime

from control.api.problem import ApiError


def moment(text: str) -> datetime:
    """Timezone-aware; ApiError for what is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ApiError(400, "bad-cursor", "this is no cursor of this list: take `next` of the page before")
    return found
