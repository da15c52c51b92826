"""What a number on a page says, and which numbers a document holds."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

_ROUNDING = 1e-9
_SCALE = {"": 1.0, "×": 1.0, "k": 1e3, "M": 1e6, "B": 1e9, "%": 0.01}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"^(?P<digits>[\d,.]+) (?P<unit>ms|s|min|h|d)$")
_SIZE = re.compile(r"^(?P<digits>[\d,.]+) (?P<unit>[kMGT]?B)$")
_SHOWN = re.compile(r"^\+?(?P<minus>[−-]?)\$?(?P<digits>[\d,]*\.?\d+)(?P<scale>[kMB%×]?)(/[a-z]+)?$")


def numbers_of(document: Any) -> Iterator[float]:
    """Every number in a JSON document, how long its lists are, and what a field adds up to over the items of a list."""
    sums: defaultdict[str, float] = defaultdict(float)
    yield from _walk(document, "", sums)
    yield from sums.values()


def _walk(value: Any, path: str, sums: defaultdict[str, float]) -> Iterator[float]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        sums[path] += value
        yield float(value)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _walk(each, f"{path}.{name}", sums)
    elif isinstance(value, list):
        yield float(len(value))
        for each in value:
            yield from _walk(each, f"{path}[]", sums)


class Known:
    """Numbers that the API said, and what follows from two of them: a difference, a share, a change against another."""

    def __init__(self, numbers: Iterable[float]) -> None:
        self._numbers = sorted(set(numbers))

    def has(self, value: float) -> bool:
        return self._said(value) or any(
            self._said(value + whole) or (whole > 0 and (self._said(value * whole) or self._said((value + 1) * whole)))
            for whole in self._numbers
        )

    def _said(self, value: float) -> bool:
        rounding = _ROUNDING * max(1e-6, abs(value))
        place = bisect_left(self._numbers, value - rounding)
        return place < len(self._numbers) and self._numbers[place] <= value + rounding


def says(text: str, value: float) -> bool:
    """Whether a text like `$1,234/h`, `12.3%` or `1.2M` is `value`, rounded to the digits that it shows."""
    if (took := _DURATION.match(text)) is not None:
        number, seconds = float(took["digits"].replace(",", "")), _SECONDS[took["unit"]]
        # What is shown is of seconds or of milliseconds, as its name says.
        return any(abs(number * seconds - value * scale) <= 0.06 * number * seconds + 0.5001e-3 for scale in (1, 1e-3))
    if (size := _SIZE.match(text)) is not None:
        return abs(float(size["digits"].replace(",", "")) * _BYTES[size["unit"]] - value) <= 0.006 * abs(value)
    found = _SHOWN.match(text.strip())
    if found is None:
        return False
    digits, scale = found["digits"].replace(",", ""), _SCALE[found["scale"]]
    shown = float(digits) * scale * (-1 if found["minus"] else 1)
    decimals = len(digits.partition(".")[2])
    # The last digit that is shown may be a half off; brief figures keep three of them.
    step = scale * 10.0**-decimals
    return abs(shown - value) <= 0.5001 * max(step, 1e-12) or abs(shown - value) <= 0.006 * abs(value)
