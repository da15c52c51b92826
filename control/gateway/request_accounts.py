"""What is written down of a request: that it was asked, how much work it was, and what it takes of its key's limits."""

import asyncio
from dataclasses import dataclass

from control.gateway.key_limits import Headers, KeyCharge, KeyLimits
from control.gateway.meter import Meter, Offer
from control.gateway.model_entry import ModelEntry
from control.gateway.published import AccessKey


@dataclass(frozen=True, slots=True)
class Entry:
    """Account of one request. It is refused or closed once."""

    offer: Offer
    taken: KeyCharge | None

    @property
    def headers(self) -> Headers:
        """Headers for its answer."""
        return () if self.taken is None else self.taken.headers


class RequestAccounts:
    """Make it on a running loop."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._limits = KeyLimits()
        self._loop = asyncio.get_running_loop()

    def open(
        self, model: ModelEntry, key: AccessKey | None, prompt_tokens: int, max_tokens: int, *, is_retry: bool
    ) -> Entry:
        """Raises ApiError 429 for a key at its limit: what it asks beyond that is no demand to be planned for."""
        served = model.served
        output = self._meter.expected_output(model.id, served.mean_output_tokens, max_tokens)
        taken = self._limits.take(key, prompt_tokens + output, self._loop.time())
        kind = (served.fleet, model.id, "" if key is None else key.project)
        return Entry(self._meter.offer(kind, prompt_tokens, output, is_new=not is_retry), taken)

    def refuse(self, entry: Entry) -> None:
        """Note that it was refused for want of capacity."""
        self._meter.refuse(entry.offer)
        if entry.taken is not None:
            self._limits.give_back(entry.taken, self._loop.time())

    def close(self, entry: Entry, made: int, *, is_whole: bool, is_length_known: bool) -> None:
        """Close it as `Meter.settle` does."""
        self._meter.settle(entry.offer, made, is_whole=is_whole, is_length_known=is_length_known)
        if entry.taken is not None:
            self._limits.settle(entry.taken, entry.offer.prompt_tokens + made, self._loop.time())
