"""Who may go on to an instance now, who is held until one is there, and who is turned away."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from control.gateway.api_error import ApiError, over_capacity, unavailable
from control.gateway.holding import Charges, HoldingQueue, QueuePlace
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import ModelEntry
from control.gateway.wanted import WantedAnswer
from policies.admission import Admission
from policies.fair_order import Account
from policies.priority import Priority


class Gate:
    """Make it on a running loop."""

    def __init__(
        self,
        admission: Admission,
        waits: Callable[[str, str, int], None],
        metrics: GatewayMetrics,
        processes: int,
    ) -> None:
        """`waits` is told fleet, model and how many are held for it, whenever that changes. `processes`: of the
        gateway, among which places to be held are divided."""
        self._admission = admission
        self._waits = waits
        self._metrics = metrics
        self._processes = processes
        self._loop = asyncio.get_running_loop()
        self._queues: dict[str, HoldingQueue] = {}

    def enter(self, wanted: Sequence[WantedAnswer], account: Account, priority: Priority) -> list[Charges | QueuePlace]:
        """Book what answers ask, or take places in the queue of a model at zero: for all of them, or none. Raises
        ApiError 429 or 503."""
        booked: list[Charges | QueuePlace] = []
        try:
            for one in wanted:
                place = self._place(one, account)
                booked.append(one.charges(account) if place is None else place)
            direct = [(one.model, c) for one, c in zip(wanted, booked, strict=True) if not isinstance(c, QueuePlace)]
            self._admit(direct, priority)
        except ApiError:
            for taken in booked:
                if isinstance(taken, QueuePlace):
                    taken.queue.leave(taken)
            raise
        return booked

    def enter_at_once(self, model: ModelEntry, charges: Charges, priority: Priority) -> None:
        """Book what one request asks of a model, which is not held where nothing serves that. Raises ApiError 429 or
        503."""
        if not charges:
            raise unavailable(f"No instance serves `{model.id}` now")
        self._admit(((model, charges),), priority)

    def _place(self, wanted: WantedAnswer, account: Account) -> QueuePlace | None:
        """A place in the queue of a model that nothing serves."""
        model, hold = wanted.model, wanted.model.served.hold
        queue = self._queues.get(model.id)
        if hold is None or not (queue or not model.is_ready):
            return None
        if queue is None:
            queue = self._queues[model.id] = HoldingQueue(model, self._admission, self._changed)
        own_places = -(-hold.max_requests // self._processes)  # rounded up: a process without any would hold nobody
        return queue.join(len(wanted.prompt), wanted.max_tokens, account, own_places, hold.timeout_s)

    def _admit(self, direct: Sequence[tuple[ModelEntry, Charges]], priority: Priority) -> None:
        """Admit answers together, as one request that is as much work would be."""
        refusal = self._admission.admit(tuple(c for _, charges in direct for c in charges), self._loop.time(), priority)
        if refusal is None:
            return
        model, charges = next(
            (model, charges) for model, charges in direct if any(charge.work == refusal.work for charge in charges)
        )
        if min(charge.units_per_s for charge in charges) <= 0:
            raise unavailable(f"No instance serves `{model.id}` now")
        what = model.work_name(refusal.work)
        if refusal.is_of_share:
            message = f"`{model.id}` is at its capacity for {what}, of which you have your share"
            raise over_capacity(message, refusal.retry_after_s)
        raise over_capacity(f"`{model.id}` is at its capacity for {what}", refusal.retry_after_s)

    def leave(self, booked: Charges | QueuePlace) -> None:
        """Nobody waits for it any more; what it was admitted with, if it was, is given back."""
        if isinstance(booked, QueuePlace):
            turn = booked.turn
            booked.queue.leave(booked)
            booked = turn.result() if turn.done() and not turn.cancelled() and turn.exception() is None else ()
        for charge in booked:
            self._admission.give_back(charge)

    def settle(self, charges: Charges, made_tokens: int) -> None:
        """Give back what was booked for an answer and is not made."""
        for charge in charges:
            if charge.per_output_token:
                left = charge.units - charge.per_output_token * made_tokens
                self._admission.give_back(replace(charge, units=left))

    def settle_share(self, charges: Charges, made: float) -> None:
        """Give back what was booked and is not made. `made`: its share of what was; above 1, more is booked."""
        for charge in charges:
            self._admission.give_back(replace(charge, units=(1 - made) * charge.units))

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
