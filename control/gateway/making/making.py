"""Has generators make answers, and goes on elsewhere when one is lost.

Theory of operation: an answer has at most one attempt at a time, at the member that its route chooses, and is a stream
of numbered pieces. Whatever ends an attempt before the last piece forgets it first, so that late messages of it meet
nobody, and the next one goes on behind the pieces that are there. When no member can be had, the answer waits for one
for as long as calls do. Pieces that clients have not taken are held in a budget of all answers; one that exceeds its
share is given up.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress

from agents.channels.errors import ChannelError
from agents.messages.component_work import Made, Make
from agents.messages.to_gateway import Failed, Failure
from agents.messages.to_scheduler import Cancel
from control.gateway.api_error import given_up, unavailable
from control.gateway.instance_link import InstanceLink
from control.gateway.making.coming_pieces import ComingPieces, PieceBudget
from control.gateway.making.making_call import MakingCall
from control.gateway.model_entry import ModelEntry
from policies.routing_table import RoutedInstance

_RETRY_S = 0.1
"""An answer is tried again so soon where members are open, but have all failed it just now."""
_SHORTEST_S = 0.001
_LONGEST_S = 3600.0


class Making:
    """Make it on a running loop."""

    def __init__(
        self,
        ids: Iterator[int],
        wait_s: float,
        model_of: Callable[[str], ModelEntry | None],
        link_of: Callable[[str], InstanceLink | None],
        lost: Callable[[MakingCall, InstanceLink, str, str], None],
        used: Callable[[InstanceLink], None],
        freed: Callable[[InstanceLink], None],
        budget: PieceBudget,
    ) -> None:
        """`ids`: of attempts. `wait_s`: how long an answer may wait for a member. `lost`: told answer, link, cause and
        reason when it has to go on elsewhere; it may end it. `used`, `freed`: told who was sent an answer to make, and
        who has one less. `budget`: of pieces that clients have not taken."""
        self._ids, self._wait_s, self._model_of, self._link_of = ids, wait_s, model_of, link_of
        self._lost, self._used, self._freed = lost, used, freed
        self._loop = asyncio.get_running_loop()
        self._coming: dict[InstanceLink, dict[int, ComingPieces]] = {}
        self._budget = budget
        self._waiting: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        """Count the answers that wait for a member."""
        return len(self._waiting)

    def held(self, link: InstanceLink) -> int:
        """Count the answers that a member makes."""
        return len(self._coming.get(link, ()))

    def heard(self, link: InstanceLink, message: Made | Failed) -> None:
        coming = self._coming.get(link, {}).get(message.attempt)
        if coming is None or coming.is_over:
            return
        coming.put(message)
        if coming.is_over:  # its executor need not go on, whenever the client reads again
            self._cancel(link, message.attempt)

    def lose(self, link: InstanceLink, reason: str) -> None:
        """The link is lost, and what was under way there."""
        for attempt, coming in self._coming.get(link, {}).items():
            coming.put(Failed(attempt, Failure.ENGINE, reason[:4096]))

    def wake(self) -> None:
        """A member may have room now."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def pieces(self, call: MakingCall) -> AsyncGenerator[Made, None]:
        """Yield the pieces of an answer, each once and in order. Close it: what is under way is given up with it.
        Raises ApiError."""
        while True:
            member, component = await self._member(call)
            failed = Failed(0, Failure.UNKNOWN_MODEL, "it is of a table that is gone")
            if (link := self._link_of(member.id)) is not None:
                attempt, coming = next(self._ids), ComingPieces(self._budget)
                self._coming.setdefault(link, {})[attempt] = coming
                is_open = False
                try:
                    link.send(self._task(call, attempt, component))
                    is_open = True
                    self._used(link)
                    while isinstance(message := await coming.take(), Made):
                        if message.number != call.sent:
                            failed = Failed(attempt, Failure.ENGINE, "pieces of its answer are missing")
                            break
                        is_open = not message.is_last
                        call.sent += 1
                        call.units += message.units
                        call.is_whole = message.is_last
                        link.pause_s = 0.0
                        yield message
                        if message.is_last:
                            return
                    else:
                        is_open = False
                        if message is None:
                            raise unavailable("The gateway has no memory for more sound: read it as it comes")
                        failed = message
                except ChannelError as error:
                    failed = Failed(attempt, Failure.ENGINE, str(error)[:4096])
                finally:
                    self._forget(link, attempt, is_open=is_open)
                if not failed.failure.is_retryable:
                    raise given_up(failed)
                self._lost(call, link, failed.failure.value, failed.reason)
            else:
                call.avoided.add(member.id)
            if call.end is not None:
                raise call.end

    def _task(self, call: MakingCall, attempt: int, component: str) -> Make:
        asked = call.asked
        timeout_s = min(max(_SHORTEST_S, asked.deadline_at_s - self._loop.time()), _LONGEST_S)
        about = attempt, asked.request, asked.app, component, asked.asked
        return Make(*about, timeout_s, call.sent, asked.trace)

    async def _member(self, call: MakingCall) -> tuple[RoutedInstance, str]:
        """Wait for a member, and say which of its components is asked. Raises ApiError."""
        asked, until_s = call.asked, self._loop.time() + self._wait_s
        while (model := self._model_of(asked.model)) is not None:
            chosen = model.router.choose(model.closed | call.avoided, asked.request)
            if chosen is not None:
                graph = asked.graphs.get(chosen.route.id)
                if graph is None:
                    raise unavailable(f"`{asked.app}` has no executors for this request's route")
                return chosen.members[graph.leg], graph.component
            now_s = self._loop.time()
            if now_s >= until_s:
                break
            call.avoided.clear()
            await self._room(_RETRY_S if model.is_open else until_s - now_s)
        raise unavailable(f"No instance of `{asked.app}` can take the request now")

    async def _room(self, longest_s: float) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=longest_s)
        finally:
            self._waiting.discard(waiter)

    def _forget(self, link: InstanceLink, attempt: int, *, is_open: bool) -> None:
        coming = self._coming.get(link, {})
        if (pieces := coming.pop(attempt, None)) is not None:
            pieces.close()
        if not coming:
            self._coming.pop(link, None)
        if is_open:
            self._cancel(link, attempt)
        self._freed(link)

    def _cancel(self, link: InstanceLink, attempt: int) -> None:
        with suppress(ChannelError):  # it cannot be told, and gives up in time
            link.send(Cancel(attempt))
