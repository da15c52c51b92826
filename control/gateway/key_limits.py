"""What the holder of a key may ask of this gateway in a minute."""

from dataclasses import dataclass

from control.gateway.api_error import over_limit
from control.gateway.published import AccessKey
from policies.token_bucket import TokenBucket

Headers = tuple[tuple[bytes, bytes], ...]


class _Buckets:
    def __init__(self, key: AccessKey, now_s: float) -> None:
        self.limits = (key.requests_per_minute, key.tokens_per_minute)
        self.by_unit = {
            unit: TokenBucket(limit, now_s)
            for unit, limit in zip((b"requests", b"tokens"), self.limits, strict=True)
            if limit is not None
        }


@dataclass(frozen=True, slots=True)
class KeyCharge:
    """Taken by one answer to a request of a key with limits."""

    key: str
    tokens: float
    headers: Headers
    """Headers for its answer: what is left."""


class KeyLimits:
    """Time is an argument and never goes back."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Buckets] = {}

    def take(self, key: AccessKey | None, tokens: float, now_s: float, requests: int = 1) -> KeyCharge | None:
        """`tokens`: of prompts and, as expected, of answers. `requests`: so many answers are asked for at once. None:
        without limits. Raises ApiError 429."""
        if key is None or (key.requests_per_minute is None and key.tokens_per_minute is None):
            return None
        held = self._buckets.get(key.id)
        if held is None or held.limits != (key.requests_per_minute, key.tokens_per_minute):
            held = self._buckets[key.id] = _Buckets(key, now_s)
        units = {b"requests": float(requests), b"tokens": tokens}
        waits_s = {unit: bucket.wait_s(units[unit], now_s) for unit, bucket in held.by_unit.items()}
        worst = max(waits_s, key=lambda unit: waits_s[unit])
        if waits_s[worst] > 0:
            limit = held.by_unit[worst].per_minute
            raise over_limit(worst.decode(), int(limit), waits_s[worst], _headers(held, now_s))
        for unit, bucket in held.by_unit.items():
            bucket.take(units[unit], now_s)
        return KeyCharge(key.id, tokens, _headers(held, now_s))

    def settle(self, taken: KeyCharge, tokens: float, now_s: float) -> None:
        """It took so many tokens."""
        self._give(taken, b"tokens", taken.tokens - tokens, now_s)

    def give_back(self, taken: KeyCharge, now_s: float) -> None:
        """It was not served, for a reason that is not its client's."""
        self._give(taken, b"requests", 1.0, now_s)
        self._give(taken, b"tokens", taken.tokens, now_s)

    def _give(self, taken: KeyCharge, unit: bytes, units: float, now_s: float) -> None:
        bucket = self._buckets[taken.key].by_unit.get(unit)
        if bucket is not None:
            bucket.take(-units, now_s)


def _headers(held: _Buckets, now_s: float) -> Headers:
    return tuple(
        header
        for unit, bucket in held.by_unit.items()
        for header in (
            (b"x-ratelimit-limit-" + unit, b"%d" % bucket.per_minute),
            (b"x-ratelimit-remaining-" + unit, b"%d" % max(0, int(bucket.left(now_s)))),
            (b"x-ratelimit-reset-" + unit, _span(bucket.full_in_s(now_s))),
        )
    )


def _span(seconds: float) -> bytes:
    """Span as OpenAI writes it: 250ms, 7.5s, 1m30s."""
    if seconds < 1:
        return b"%dms" % round(1000 * seconds)
    minutes, rest = divmod(round(seconds, 1), 60)
    return b"%dm%ds" % (minutes, rest) if minutes else b"%gs" % rest
