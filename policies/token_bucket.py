"""A limit per minute as a bucket of tokens: as much at once as a minute gives, then only as fast as it fills."""

_MINUTE_S = 60.0


class TokenBucket:
    """Time is an argument and never goes back. Starts full."""

    def __init__(self, per_minute: float, now_s: float) -> None:
        self.per_minute = per_minute
        self._left = per_minute
        self._at_s = now_s

    def left(self, now_s: float) -> float:
        """Return the units that may be taken now; below 0 after work that turned out larger than it was taken for."""
        self._left = min(self.per_minute, self._left + (now_s - self._at_s) * self.per_minute / _MINUTE_S)
        self._at_s = now_s
        return self._left

    def wait_s(self, units: float, now_s: float) -> float:
        """Seconds until `take` may be called, if nobody else takes. What is larger than the bucket waits for a full
        one."""
        missing = min(units, self.per_minute) - self.left(now_s)
        return max(0.0, missing * _MINUTE_S / self.per_minute)

    def take(self, units: float, now_s: float) -> None:
        """Take tokens; a negative number gives them back."""
        self._left = self.left(now_s) - units

    def full_in_s(self, now_s: float) -> float:
        return (self.per_minute - self.left(now_s)) * _MINUTE_S / self.per_minute
