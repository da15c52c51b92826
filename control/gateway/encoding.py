"""Has executors encode the pictures and sounds of calls, before a decoder is sent them.

Theory of operation: a call is being encoded in a task of its own, which makes one unit after the other go: prepared by
the gateway's preprocessor, then sent to a member of the route's leg, by address (`placement` says to whom). A unit that
is lost is done again elsewhere, alone; rows that are there stay the call's. When none of a leg's members can be had,
the call goes back to the dispatcher, which chooses another route or has it wait. Whatever ends the task frees what it
holds.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterator

from agents.channels.errors import ChannelError
from agents.messages.component_work import Encode, Encoded, PromptRows, TensorAt
from agents.messages.to_gateway import Failed, Failure, FinishReason
from agents.messages.to_preprocessor import Output
from agents.messages.to_scheduler import Cancel
from agents.tracing.trace_parent import trace_id
from control.gateway.api_error import ApiError, given_up, media_refused, unavailable
from control.gateway.call import Call
from control.gateway.instance_link import InstanceLink
from control.gateway.media.media_unit import MediaUnit
from control.gateway.media.preprocessor import Preprocessor, PreprocessorError
from control.gateway.metrics import GatewayMetrics
from control.gateway.placement import Placement
from control.gateway.tasks.unit_graph import EncodeStep
from templates_lib.media.media_error import MediaError

_log = logging.getLogger(__name__)
_KEEP_S = 120.0
"""Time for the decoder to take rows: longer than a call may wait for one."""
_LONGEST_S = 60.0
"""Of a unit at an executor."""


class NoMemberError(Exception):
    """No executor of a leg can be sent anything now."""


class Encoding:
    """Make it on a running loop."""

    def __init__(
        self,
        preprocessor: Preprocessor,
        ids: Iterator[int],
        link_of: Callable[[str], InstanceLink | None],
        lost: Callable[[Call, InstanceLink, str, str], None],
        used: Callable[[InstanceLink], None],
        freed: Callable[[InstanceLink], None],
        metrics: GatewayMetrics,
    ) -> None:
        """`ids`: of attempts. `lost`: told call, link, cause and reason when a unit has to be done again; it may end
        the call. `used`, `freed`: told who was sent a unit, and who has one less."""
        self._preprocessor, self._ids, self._link_of = preprocessor, ids, link_of
        self._lost, self._used, self._freed, self._metrics = lost, used, freed, metrics
        self._prefix = secrets.token_hex(8)
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._waiting: dict[InstanceLink, dict[int, asyncio.Future[Encoded | Failed]]] = {}
        self._made: dict[Call, list[tuple[InstanceLink, int]]] = {}
        """Attempts whose rows may still lie where they were made."""

    def begin(self, call: Call, placement: Placement, done: Callable[[Call], None]) -> None:
        """Encode what is missing; `done` is called when it is there, or when the route has nobody left for it."""
        task = self._tasks[call] = asyncio.get_running_loop().create_task(self._encode(call, placement, done))
        task.add_done_callback(lambda _: placement.close())  # also of one that is cancelled before it begins

    def cancel(self, call: Call) -> None:
        task = self._tasks.pop(call, None)
        if task is not None:
            task.cancel()
        self.withdraw(call)

    def withdraw(self, call: Call) -> None:
        """Have rows of a call that nobody takes any more freed; those that were taken are gone already."""
        for link, attempt in self._made.pop(call, ()):
            if not isinstance(call.end, FinishReason):  # its decoder had them
                self._cancel(link, attempt)

    def close(self) -> None:
        for call in list(self._tasks):
            self.cancel(call)

    def held(self, link: InstanceLink) -> int:
        """Count the units that a member has."""
        return len(self._waiting.get(link, ()))

    def heard(self, link: InstanceLink, message: Encoded | Failed) -> bool:
        """Take an answer in; whether it is for a unit."""
        waiter = self._waiting.get(link, {}).get(message.attempt)
        if waiter is not None and not waiter.done():
            waiter.set_result(message)
        return waiter is not None

    def lose(self, link: InstanceLink, reason: str) -> None:
        """The link is lost, and what was under way there."""
        for attempt, waiter in self._waiting.get(link, {}).items():
            if not waiter.done():
                waiter.set_result(Failed(attempt, Failure.ENGINE, reason[:4096]))

    async def _encode(self, call: Call, placement: Placement, done: Callable[[Call], None]) -> None:
        error: ApiError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for step in placement.steps:
                    group.create_task(self._unit(call, placement, step))
        except* NoMemberError:
            pass  # `done` finds it missing
        except* ApiError as errors:
            error = _leaf(errors)
        except* Exception:  # a bug: the client is told now, not at its time-out
            _log.exception("encoding for %s failed", call.asked.request)
            error = ApiError(500, "server_error", f"Internal error; the log says more about {call.asked.request}")
        if self._tasks.get(call) is asyncio.current_task():
            del self._tasks[call]
        if error is not None:
            call.finish(error)
        elif call.end is None:
            done(call)

    async def _unit(self, call: Call, placement: Placement, step: EncodeStep) -> None:
        """Raises NoMemberError, ApiError."""
        is_first, began_s = True, time.monotonic()
        while call.end is None:
            placed = placement.member(step, is_first=is_first)
            link = None if placed is None else self._link_of(placed.member.id)
            if placed is None or link is None:  # nobody, or somebody of a table that is gone
                raise NoMemberError
            is_first = False
            answer = await self._attempt(call, placement, step, link, placed.behind_s)
            if isinstance(answer, PromptRows):
                placement.done(step)
                call.rows[step.part], call.encoded_by[step.part] = answer, placed.member.id
                self._metrics.unit_s.labels(call.asked.model).observe(time.monotonic() - began_s)
                return
            if not answer.failure.is_retryable:
                raise given_up(answer)
            self._lost(call, link, answer.failure.value, answer.reason)

    async def _attempt(
        self, call: Call, placement: Placement, step: EncodeStep, link: InstanceLink, behind_s: float
    ) -> PromptRows | Failed:
        """Raises ApiError."""
        asked, task = call.asked, call.asked.task
        assert task is not None  # noqa: S101 - calls without one have nothing to encode
        attempt, unit = next(self._ids), task.units.units[step.part]
        values, output = (f"{self._prefix}.{attempt}.{what}" for what in ("unit", "rows"))
        key = _key(unit, asked.cache_salt)
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Encoded | Failed] = loop.create_future()
        is_sent, answer = False, None
        try:
            place = await self._preprocessor.prepare(unit, task.reading, Output(values, key, _KEEP_S))
            timeout_s = max(0.001, min(_LONGEST_S, asked.deadline_at_s - loop.time()))
            message = Encode(
                attempt,
                asked.request,
                task.app.served.name,
                step.component,
                TensorAt(values, place),
                output,
                timeout_s,
                unit.patches,
                placement.takers,
                _KEEP_S,
                key,
                asked.trace,
                unit.rows,
                behind_s,
            )
            self._waiting.setdefault(link, {})[attempt] = waiter
            try:
                link.send(message)
            except ChannelError as error:
                return Failed(attempt, Failure.ENGINE, str(error)[:4096])
            is_sent = True
            self._used(link)
            answer = await waiter
        except MediaError as error:
            raise media_refused(error, error.message) from None
        except PreprocessorError as error:
            _log.warning("a unit of %s: %s", asked.request, error)
            raise unavailable("A picture or sound of the request could not be prepared. Send it again") from None
        finally:
            self._forget(link, attempt)
            self._preprocessor.discard(values)
            if is_sent and answer is None:  # also where one has come, and this ends before it is looked at
                self._cancel(link, attempt)
        if isinstance(answer, Failed):
            return answer
        if call in self._tasks:
            self._made.setdefault(call, []).append((link, attempt))
        else:  # it was cancelled just now
            self._cancel(link, attempt)
        if answer.rows != unit.rows and task.places[step.part] is not None:
            about = {"request": asked.request, "trace": trace_id(asked.trace)}
            _log.error("%s gives %d rows where the prompt has %d", step.component, answer.rows, unit.rows, extra=about)
            raise unavailable("The encoder counts the tokens of a picture or sound in another way than the gateway")
        where = TensorAt(output, answer.place)
        made = _hash(task.app.served.name, step.component, key)
        return PromptRows(where, answer.rows, task.places[step.part], unit.places, key=made)

    def _forget(self, link: InstanceLink, attempt: int) -> None:
        waiting = self._waiting.get(link, {})
        waiting.pop(attempt, None)
        if not waiting:
            self._waiting.pop(link, None)
        self._freed(link)

    @staticmethod
    def _cancel(link: InstanceLink, attempt: int) -> None:
        try:
            link.send(Cancel(attempt))
        except ChannelError:
            _log.debug("instance %s cannot be told to cancel; its unit is given up in time", link.instance)


def _leaf(errors: "BaseExceptionGroup[ApiError]") -> ApiError:
    """One of them: each would have ended the request."""
    first = errors.exceptions[0]
    return _leaf(first) if isinstance(first, BaseExceptionGroup) else first


def _key(unit: MediaUnit, salt: str) -> str:
    """Under which what is made of a unit is kept: a project is not told by how fast it goes what others have sent."""
    return _hash(salt, unit.key)


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=32).hexdigest()
