"""Requests for a model that nothing serves, in the order in which they came, until something does."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from control.gateway.api_error import ApiError, over_capacity, unavailable, unknown_model
from control.gateway.model_entry import ModelEntry
from policies.admission import Admission, Charge
from policies.fair_order import Account

Charges = tuple[Charge, ...]

_MOST_PAUSE_S = 1.0
"""Between two looks at whether admitted work leaves room for more."""


class QueuePlace:
    """Place of one request in a queue."""

    def __init__(self, queue: "HoldingQueue", prompt_tokens: int, max_tokens: int, account: Account) -> None:
        self.queue = queue
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.account = account
        self.turn: asyncio.Future[Charges] = asyncio.get_running_loop().create_future()
        """What was booked when it was admitted; an ApiError when it waited too long, or its model is gone."""
        self.came_s = 0.0
        self.expiry: asyncio.TimerHandle | None = None


class HoldingQueue:
    """Queue of one model."""

    def __init__(self, model: ModelEntry, admission: Admission, changed: Callable[[ModelEntry, int], None]) -> None:
        """`changed` is told how many wait."""
        self._model = model
        self._admission = admission
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._places: OrderedDict[QueuePlace, None] = OrderedDict()
        self._pause: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._places)

    def join(self, prompt_tokens: int, max_tokens: int, account: Account, most: int, timeout_s: float) -> QueuePlace:
        """Raises ApiError 429 when it is full."""
        now_s = self._loop.time()
        if len(self._places) >= most:
            first = next(iter(self._places), None)
            waited_s = 0.0 if first is None else now_s - first.came_s
            message = f"Nothing serves `{self._model.id}` yet, and {len(self._places)} requests wait for it already"
            raise over_capacity(message, max(timeout_s - waited_s, 1.0))
        place = QueuePlace(self, prompt_tokens, max_tokens, account)
        place.came_s = now_s
        place.expiry = self._loop.call_later(timeout_s, self._expire, place, timeout_s)
        self._places[place] = None
        self._changed(self._model, len(self._places))
        return place

    def leave(self, place: QueuePlace) -> None:
        """Nobody waits there any more. After its turn: no harm."""
        if self._take_out(place):
            place.turn.cancel()
            self.drain()

    def drain(self) -> None:
        """Admit as many as can be served now, the first first; who has his share already lets others pass."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        pause_s = _MOST_PAUSE_S
        for place in list(self._places) if self._model.is_ready else ():
            charges = self._model.charges(place.prompt_tokens, place.max_tokens, place.account)
            refusal = self._admission.admit(charges, self._loop.time())
            if refusal is None:
                self._take_out(place)
                place.turn.set_result(charges)
                continue
            pause_s = min(pause_s, refusal.retry_after_s)
            if not refusal.is_of_share:
                break
        if self._places and self._model.is_ready:
            self._pause = self._loop.call_later(pause_s, self.drain)

    def abandon(self) -> None:
        """The model is not served any more."""
        for place in list(self._places):
            self._take_out(place)
            place.turn.set_exception(unknown_model(self._model.id, ()))

    def _expire(self, place: QueuePlace, timeout_s: float) -> None:
        self._take_out(place)
        place.turn.set_exception(_too_late(self._model.id, timeout_s))
        self.drain()

    def _take_out(self, place: QueuePlace) -> bool:
        if place not in self._places:
            return False
        del self._places[place]
        if place.expiry is not None:
            place.expiry.cancel()
        self._changed(self._model, len(self._places))
        return True


def _too_late(model: str, timeout_s: float) -> ApiError:
    return unavailable(f"Nothing serves `{model}` yet: the request waited {timeout_s:g} s for it", timeout_s)
