"""Bounded reading of a parsed, possibly hostile, config.json: every value is checked before it is used."""

import math
from dataclasses import dataclass
from typing import Any


class UnsupportedModelError(ValueError):
    """The architecture cannot be expressed: `key` of the config is missing, wrong, or names something unknown here."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"config key `{key}`: {why}")
        self.key = key
        self.why = why


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object with the path of its keys for error messages."""

    raw: dict[str, Any]
    prefix: str = ""

    @classmethod
    def of(cls, value: object, prefix: str) -> "Fields":
        if not isinstance(value, dict):
            raise UnsupportedModelError(prefix.rstrip(".") or "(root)", "must be a JSON object")
        return cls(value, prefix)

    def name_of(self, *keys: str) -> str | None:
        """The first of several synonyms that is present and not null."""
        return next((k for k in keys if self.raw.get(k) is not None), None)

    def integer(self, key: str, default: int | None = None, low: int = 0, high: int = 1 << 24) -> int:
        value = self.raw.get(key)
        if value is None:
            if default is None:
                raise UnsupportedModelError(self.prefix + key, "is missing")
            return default
        whole = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not whole or value != int(value) or not low <= value <= high:
            raise UnsupportedModelError(
                self.prefix + key, f"must be a whole number in [{low}, {high}], is {_short(value)}"
            )
        return int(value)

    def number(self, key: str, low: float, high: float) -> float:
        value = self.raw.get(key)
        if value is None:
            raise UnsupportedModelError(self.prefix + key, "is missing")
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not good or not low <= value <= high:
            raise UnsupportedModelError(
                self.prefix + key, f"must be a number in [{low:g}, {high:g}], is {_short(value)}"
            )
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.raw.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise UnsupportedModelError(self.prefix + key, f"must be true or false, is {_short(value)}")
        return value

    def text(self, key: str, default: str) -> str:
        value = self.raw.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > 256:
            raise UnsupportedModelError(self.prefix + key, f"must be a short text, is {_short(value)}")
        return value

    def texts(self, key: str, limit: int) -> tuple[str, ...]:
        value = self.raw.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > limit or not all(isinstance(v, str) for v in value):
            raise UnsupportedModelError(self.prefix + key, f"must be a list of at most {limit} texts")
        return tuple(value)

    def integers(self, key: str, limit: int = 4096) -> tuple[int, ...]:
        value = self.raw.get(key)
        if value is None:
            return ()
        good = isinstance(value, list) and len(value) <= limit
        if not good or not all(type(v) is int and 0 <= v < 1 << 24 for v in value):
            raise UnsupportedModelError(self.prefix + key, f"must be a list of at most {limit} small whole numbers")
        return tuple(value)

    def table(self, key: str) -> dict[str, Any] | None:
        value = self.raw.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise UnsupportedModelError(self.prefix + key, f"must be a JSON object, is {_short(value)}")
        return value

    def part(self, key: str) -> "Fields":
        """The fields of a table that must be there."""
        inner = self.table(key)
        if inner is None:
            raise UnsupportedModelError(self.prefix + key, "is missing")
        return Fields(inner, f"{self.prefix}{key}.")


def _short(value: object) -> str:
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)} entries"
    text = repr(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "a huge number"
    return text if len(text) <= 40 else text[:37] + "..."
