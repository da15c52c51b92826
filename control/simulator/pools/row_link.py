"""Rows on their way from encoders to text instances, which pull them (ModServe, sections 4.3 and 5.5)."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class RowLink:
    """Network of a pool's members: each sends, and takes in, one transfer after the other at the rate of its own
    card."""

    bytes_per_row: float
    bytes_per_s: float
    latency_s: float = 0.0
    """Of one pull, beside its bytes."""
    _free_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def pulled_s(self, rows: Mapping[str, int], target: str, now_s: float) -> float:
        """When all rows of a request are at `target`. `rows`: encoder → rows that it has."""
        end_s = now_s
        for source, count in rows.items():
            start_s = max(now_s, self._free_s[f"{source}>"], self._free_s[f">{target}"])
            end_s = start_s + count * self.bytes_per_row / self.bytes_per_s
            self._free_s[f"{source}>"] = self._free_s[f">{target}"] = end_s
        return end_s + self.latency_s
