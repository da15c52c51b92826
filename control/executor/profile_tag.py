"""The tag of nodes that are rented to be measured, which no row explains."""

from collections.abc import Mapping
from datetime import UTC, datetime

PROFILE_TAG = "medley-profile-until"
"""Seconds since 1970 until which whoever rented it measures it. After that it is an orphan like any other."""


def profile_tags(until: datetime) -> dict[str, str]:
    return {PROFILE_TAG: str(int(until.timestamp()))}


def is_measured(tags: Mapping[str, str], now: datetime) -> bool:
    """Tell whether somebody measures the node still."""
    until = tags.get(PROFILE_TAG, "")
    # 11 digits of seconds end in the year 5138; longer numbers are nobody's time.
    return until.isdecimal() and len(until) <= 11 and now < datetime.fromtimestamp(int(until), UTC)
