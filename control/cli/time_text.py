"""Times for people."""

from datetime import UTC, datetime, timedelta

OLD = timedelta(days=7)
"""Age from which on a price is not today's: spot prices move within hours, list prices within weeks."""


def age(passed: timedelta) -> str:
    seconds = passed.total_seconds()
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def at(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def utc(iso: str) -> str:
    """Return a recorded time, ISO 8601, as all commands show it; empty where there is none."""
    return at(datetime.fromisoformat(iso).astimezone(UTC)) if iso else ""
