"""What is written down of a request: that it was asked, how much work it was, and what it takes of its key's limits."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from control.gateway.api_error import ApiError
from control.gateway.key_limits import Headers, KeyCharge
from control.gateway.limits import Limits
from control.gateway.meter import Meter, Offer
from control.gateway.model_entry import ModelEntry
from control.gateway.published import AccessKey
from control.gateway.wanted import WantedAnswer
from templates_lib.values.work import Unit


@dataclass(frozen=True, slots=True)
class Entry:
    """Account of one answer. It is refused or closed once."""

    offer: Offer
    taken: KeyCharge | None

    @property
    def headers(self) -> Headers:
        """Headers for its answer."""
        return () if self.taken is None else self.taken.headers


class RequestAccounts:
    def __init__(self, meter: Meter, limits: Limits) -> None:
        self._meter = meter
        self._limits = limits

    async def open(self, wanted: Sequence[WantedAnswer], key: AccessKey | None, *, is_retry: bool) -> list[Entry]:
        """Open an account for each answer. Raises ApiError 429 for a key at its limit, which takes all of them or none:
        what it asks beyond that is no demand to be planned for."""
        outputs = [
            0.0
            if one.pooling is not None
            else self._meter.expected_output(one.model.id, one.model.served.mean_output_tokens, one.max_tokens)
            for one in wanted
        ]
        tokens = [len(one.prompt) + output for one, output in zip(wanted, outputs, strict=True)]
        taken = await self._limits.take(key, sum(tokens), len(wanted))
        project, key_id = _whose(key)
        return [
            Entry(
                self._meter.offer(
                    (one.model.served.fleet, one.model.id, project),
                    len(one.prompt),
                    output,
                    key=key_id,
                    is_new=not is_retry,
                    has_answer=one.pooling is None,
                    brought={} if one.media is None else one.media.rows,
                ),
                None if taken is None else replace(taken, tokens=own),
            )
            for one, output, own in zip(wanted, outputs, tokens, strict=True)
        ]

    async def open_made(
        self, model: ModelEntry, units: Sequence[Mapping[Unit, float]], key: AccessKey | None, *, is_retry: bool
    ) -> list[Entry]:
        """The same for answers of sound or pictures, of which limits of tokens know nothing. `units`: that each is
        expected to take."""
        taken = await self._limits.take(key, 0.0, len(units))
        project, key_id = _whose(key)
        kind = model.served.fleet, model.id, project
        return [
            Entry(self._meter.offer(kind, 0, 0.0, key=key_id, is_new=not is_retry, has_answer=False, made=own), taken)
            for own in units
        ]

    def close_made(self, entry: Entry, units: Mapping[Unit, float], *, is_whole: bool, is_length_known: bool) -> None:
        """Close it as `Meter.settle_made` does."""
        self._meter.settle_made(entry.offer, units, is_whole=is_whole, is_length_known=is_length_known)
        if entry.taken is not None:
            self._limits.settle(entry.taken, 0.0)

    @asynccontextmanager
    async def run(self, key: AccessKey | None) -> AsyncIterator[Headers]:
        """Take a request of a key while a run of a workflow is started or looked at; it yields headers for its answer.
        Of tokens its models' calls take, as calls of its project. Raises ApiError 429."""
        taken, is_served = await self._limits.take(key, 0.0), True
        try:
            yield () if taken is None else taken.headers
        except ApiError as error:
            is_served = error.status < 500
            raise
        finally:
            if taken is not None and is_served:
                self._limits.settle(taken, 0.0)
            elif taken is not None:
                self._limits.give_back(taken)

    def judge(self, entry: Entry, *, is_in_time: bool) -> None:
        """Note whether it kept all objectives that it has."""
        self._meter.judge(entry.offer, is_in_time=is_in_time)

    def refuse(self, entry: Entry) -> None:
        """Note that it was refused for want of capacity."""
        self._meter.refuse(entry.offer)
        if entry.taken is not None:
            self._limits.give_back(entry.taken)

    def close(self, entry: Entry, made: int, *, is_whole: bool, is_length_known: bool) -> None:
        """Close it as `Meter.settle` does."""
        self._meter.settle(entry.offer, made, is_whole=is_whole, is_length_known=is_length_known)
        if entry.taken is not None:
            self._limits.settle(entry.taken, entry.offer.prompt_tokens + made)


def _whose(key: AccessKey | None) -> tuple[str, str]:
    """Return the project and the id of a key; empty where the gateway asks for none."""
    return ("", "") if key is None else key.account
