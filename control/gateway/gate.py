"""Who may go on to an instance now, who is held until one is there, and who is turned away."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from control.gateway.api_error import over_capacity, unavailable
from control.gateway.holding import Charges, HoldingQueue, QueuePlace
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import ModelEntry
from policies.admission import Admission
from policies.priority import Priority


class Gate:
    """Make it on a running loop."""

    def __init__(self, max_wait_s: float, waits: Callable[[str, str, int], None], metrics: GatewayMetrics) -> None:
        """`waits` is told fleet, model and how many are held for it, whenever that changes."""
        self._admission = Admission(max_wait_s)
        self._waits = waits
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._queues: dict[str, HoldingQueue] = {}

    def enter(self, model: ModelEntry, prompt_tokens: int, max_tokens: int, priority: Priority) -> Charges | QueuePlace:
        """Book what it asks, or take a place in the queue of a model at zero. Raises ApiError 429 or 503."""
        hold, queue = model.served.hold, self._queues.get(model.id)
        if hold is not None and (queue or not model.is_ready):
            if queue is None:
                queue = self._queues[model.id] = HoldingQueue(model, self._admission, self._changed)
            return queue.join(prompt_tokens, max_tokens, hold.max_requests, hold.timeout_s)
        charges = model.charges(prompt_tokens, max_tokens)
        refusal = self._admission.admit(charges, self._loop.time(), priority)
        if refusal is None:
            return charges
        if min(charge.units_per_s for charge in charges) <= 0:
            raise unavailable(f"No instance serves `{model.id}` now")
        what = model.work_name(refusal.work)
        raise over_capacity(f"`{model.id}` is at its capacity for {what}", refusal.retry_after_s)

    def leave(self, place: QueuePlace) -> None:
        """Nobody waits there any more; what it was admitted with, if it was, is given back."""
        place.queue.leave(place)
        turn = place.turn
        if turn.done() and not turn.cancelled() and turn.exception() is None:
            for charge in turn.result():
                self._admission.give_back(charge)

    def settle(self, charges: Charges, made_tokens: int) -> None:
        """Give back what was booked for an answer and is not made."""
        for charge in charges:
            if charge.per_output_token:
                left = charge.units - charge.per_output_token * made_tokens
                self._admission.give_back(replace(charge, units=left))

    def refresh(self, models: Mapping[str, ModelEntry]) -> None:
        """Let those go on whose model can be used now."""
        for name, queue in list(self._queues.items()):
            if name in models:
                queue.drain()
            else:
                queue.abandon()
            if not queue:
                del self._queues[name]

    def _changed(self, model: ModelEntry, requests: int) -> None:
        self._metrics.held_calls.labels(model.id).set(requests)
        self._waits(model.served.fleet, model.id, requests)
