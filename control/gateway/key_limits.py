"""What the holder of a key, and all holders of a project's keys, may ask of this gateway."""

from collections.abc import Sequence
from dataclasses import dataclass

from control.access.use_limits import UseLimits
from control.gateway.api_error import ApiError, bad_request, over_capacity, over_limit
from control.gateway.published import AccessKey
from policies.token_bucket import TokenBucket

Headers = tuple[tuple[bytes, bytes], ...]

_AGAIN_S = 1.0
"""When to come again where too many requests are open: nobody knows how long their answers will be."""
_FEW = 1024
"""Holders that are remembered without looking who of them has asked nothing of late."""


@dataclass(frozen=True, slots=True)
class Holder:
    whose: str
    """`key` or `project`."""
    name: str


class _Use:
    """Use of one holder."""

    def __init__(self, limits: UseLimits, now_s: float) -> None:
        self.open = 0
        self.by_unit: dict[bytes, TokenBucket] = {}
        self.limit(limits, now_s)

    def limit(self, limits: UseLimits, now_s: float) -> None:
        """Count by other limits from now on. What is open stays, and of each limit the share that is used: processes
        that read the same table at different moments may go back and forth between two limits, which must give nothing.
        """
        self.limits = limits
        given = {b"requests": limits.requests_per_minute, b"tokens": limits.tokens_per_minute}
        before = self.by_unit
        self.by_unit = {unit: TokenBucket(limit, now_s) for unit, limit in given.items() if limit is not None}
        for unit in before.keys() & self.by_unit.keys():
            former, bucket = before[unit], self.by_unit[unit]
            bucket.take(bucket.per_minute * (1 - former.left(now_s) / former.per_minute), now_s)

    def is_idle(self, now_s: float) -> bool:
        return self.open == 0 and all(bucket.full_in_s(now_s) <= 0 for bucket in self.by_unit.values())


@dataclass(frozen=True, slots=True)
class KeyCharge:
    """Taken by one answer to a request of a key with limits, its own or its project's."""

    holders: tuple[Holder, ...]
    tokens: float
    headers: Headers
    """Headers for its answer: what is left."""


class KeyLimits:
    """Time is an argument and never goes back."""

    def __init__(self) -> None:
        self._uses: dict[Holder, _Use] = {}
        self._swept_at = _FEW

    def take(
        self, holders: Sequence[tuple[Holder, UseLimits]], tokens: float, now_s: float, requests: int = 1
    ) -> KeyCharge | None:
        """Take what a request of these asks, of all of them or of none. `tokens`: of prompts and, as expected, of
        answers. `requests`: so many answers are asked for at once. None: without limits. Raises ApiError 429, or 400
        where so many answers at once are never let through."""
        self._sweep(now_s)  # before any use is found: one that the charge names must not be forgotten meanwhile
        uses = {who: self._use(who, limits, now_s) for who, limits in holders}
        if not uses:
            return None
        units = {b"requests": float(requests), b"tokens": tokens}
        for who, use in uses.items():
            _check_open(who, use, requests)
        waits_s = {
            (who, unit): bucket.wait_s(units[unit], now_s)
            for who, use in uses.items()
            for unit, bucket in use.by_unit.items()
        }
        if waits_s:
            worst = max(waits_s, key=lambda each: waits_s[each])
            if waits_s[worst] > 0:
                who, unit = worst
                limit, shown = int(uses[who].by_unit[unit].per_minute), _headers(list(uses.values()), now_s)
                raise over_limit(who.whose, unit.decode(), limit, waits_s[worst], shown)
        for use in uses.values():
            use.open += requests
            for unit, bucket in use.by_unit.items():
                bucket.take(units[unit], now_s)
        return KeyCharge(tuple(uses), tokens, _headers(list(uses.values()), now_s))

    def settle(self, taken: KeyCharge, tokens: float, now_s: float) -> None:
        """It is over, and took so many tokens."""
        self._end(taken, {b"tokens": taken.tokens - tokens}, now_s)

    def give_back(self, taken: KeyCharge, now_s: float) -> None:
        """It was not served, for a reason that is not its client's."""
        self._end(taken, {b"requests": 1.0, b"tokens": taken.tokens}, now_s)

    def abandon(self, who: Holder, requests: int) -> None:
        """So many requests are open no more, and nobody will say what they took: it stays taken."""
        self._uses[who].open -= requests

    def _end(self, taken: KeyCharge, given_back: dict[bytes, float], now_s: float) -> None:
        for who in taken.holders:
            use = self._uses[who]
            use.open -= 1
            for unit, units in given_back.items():
                if unit in use.by_unit:
                    use.by_unit[unit].take(-units, now_s)

    def _use(self, who: Holder, limits: UseLimits, now_s: float) -> _Use:
        use = self._uses.get(who)
        if use is None:
            use = self._uses[who] = _Use(limits, now_s)
        elif use.limits != limits:
            use.limit(limits, now_s)
        return use

    def _sweep(self, now_s: float) -> None:
        """Forget holders of whom nothing needs to be known, such as keys that were revoked."""
        if len(self._uses) >= self._swept_at:
            self._uses = {who: use for who, use in self._uses.items() if not use.is_idle(now_s)}
            self._swept_at = max(_FEW, 2 * len(self._uses))


def holders_of(key: AccessKey | None) -> list[tuple[Holder, UseLimits]]:
    """Return those whose limits a request of the key counts against."""
    if key is None:
        return []
    found = ((Holder("key", key.id), key.limits), (Holder("project", key.project), key.project_limits))
    return [(who, limits) for who, limits in found if limits]


def _check_open(who: Holder, use: _Use, requests: int) -> None:
    most = use.limits.concurrent_requests
    if most is None or use.open + requests <= most:
        return
    raise (
        _too_many_at_once(who, most, requests)
        if requests > most
        else over_capacity(
            f"Your {who.whose} may have {most} requests open at the same time, and has {use.open}", _AGAIN_S
        )
    )


def _too_many_at_once(who: Holder, most: int, requests: int) -> ApiError:
    return bad_request(
        f"Your {who.whose} may have {most} requests open at the same time, and each of {requests} answers is one: ask"
        " for fewer at once",
        "n",
    )


def _headers(uses: list[_Use], now_s: float) -> Headers:
    """Limits as OpenAI tells them: of each unit, the one of which the least is left."""
    found: list[tuple[bytes, bytes]] = []
    for unit in (b"requests", b"tokens"):
        buckets = [use.by_unit[unit] for use in uses if unit in use.by_unit]
        if buckets:
            bucket = min(buckets, key=lambda each: each.left(now_s))
            found += [
                (b"x-ratelimit-limit-" + unit, b"%d" % bucket.per_minute),
                (b"x-ratelimit-remaining-" + unit, b"%d" % max(0, int(bucket.left(now_s)))),
                (b"x-ratelimit-reset-" + unit, _span(bucket.full_in_s(now_s))),
            ]
    return tuple(found)


def _span(seconds: float) -> bytes:
    """Span as OpenAI writes it: 250ms, 7.5s, 1m30s."""
    if seconds < 1:
        return b"%dms" % round(1000 * seconds)
    minutes, rest = divmod(round(seconds, 1), 60)
    return b"%dm%ds" % (minutes, rest) if minutes else b"%gs" % rest
