"""Work of a node for one instance: its part of each executor of the unit."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from agents.channels.keys import KeyPair
from agents.messages.to_hub import NodeReport
from agents.messages.to_node import Run, Work
from agents.node.executor_work import ExecutorWork
from agents.node.metrics import NodeFigures
from agents.node.published import PortBook
from agents.node.settings import NodeSettings

_log = logging.getLogger(__name__)

MOST = 4
"""Restarts within a window: what dies more often takes its instance with it."""
_WINDOW_S = 300.0
_FIRST_S, _FACTOR = 0.5, 2.0
"""Pause before the first restart, and how many times longer each further one waits."""


class Restarts:
    """Deaths of one executor on one node. Times are monotonic seconds of the caller's."""

    def __init__(self) -> None:
        self._died_s: deque[float] = deque()
        self.due_s = 0.0
        """From when on it may run (again)."""

    def died(self, now_s: float) -> bool:
        """Note a death; whether the executor may be started again, from `due_s` on."""
        while self._died_s and now_s - self._died_s[0] > _WINDOW_S:
            self._died_s.popleft()
        self._died_s.append(now_s)
        self.due_s = now_s + _FIRST_S * _FACTOR ** (len(self._died_s) - 1)
        return len(self._died_s) <= MOST


class InstanceWork:
    """Make it on a running loop. `changed` is called when the report has changed, `again` when `follow` is due.

    An executor that dies is started again while the others of its unit go on, as often as `Restarts` allows. Where it
    is alone in its unit, the instance has failed."""

    def __init__(
        self,
        instance: str,
        keys: KeyPair,
        key_file: Path,
        settings: NodeSettings,
        changed: Callable[[], None],
        again: Callable[[], None],
    ) -> None:
        self.instance = instance
        self._new = partial(ExecutorWork, instance, keys, key_file, settings, changed, PortBook(settings.ports).of)
        self._changed, self._again = changed, again
        self._failure = ""
        self._executors: dict[str, ExecutorWork] = {}
        self._restarts: dict[str, Restarts] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def follow(self, work: Work) -> None:
        """Start what is asked for and does not run. What has failed for good stays so: its instance is given up."""
        if not self._failure:
            await asyncio.gather(*(self._follow(run, work.drain) for run in work.runs))

    async def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        await asyncio.gather(*(executor.stop() for executor in self._executors.values()))

    def figures(self) -> tuple[NodeFigures, ...]:
        """Return figures for metrics, executor by executor."""
        return tuple(executor.figures() for executor in tuple(self._executors.values()))

    def report(self) -> NodeReport:
        reports = tuple(executor.report() for executor in self._executors.values())
        return NodeReport(self.instance, reports, self._failure[:1000])

    async def _follow(self, run: Run, drain: bool) -> None:
        restarts = self._restarts.setdefault(run.executor, Restarts())
        running = self._executors.get(run.executor)
        if running is not None and running.is_over(run):
            await running.stop()
            self._changed()
        if (wait_s := restarts.due_s - time.monotonic()) > 0:
            if (timer := self._timers.get(run.executor)) is not None:
                timer.cancel()
            self._timers[run.executor] = asyncio.get_running_loop().call_later(wait_s, self._again)
            return
        if running is None or running.is_over(run):
            spent = "" if running is None else running.scheduler_key
            running = self._new(run.executor, spent, partial(self._died, run))
            self._executors[run.executor] = running
        await running.follow(run, drain)

    def _died(self, run: Run, reason: str) -> None:
        if run.restarts and self._restarts[run.executor].died(time.monotonic()):
            _log.warning("executor %s of %s: %s", run.executor, self.instance, reason)
            self._again()
        elif not self._failure:
            # The first reason is the cause: the others fall over it.
            self._failure = f"executor {run.executor}: {reason}" if run.restarts else reason
        self._changed()
