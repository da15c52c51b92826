"""Work of a node for one instance: its part of each executor of the unit."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from agents.channels.keys import KeyPair
from agents.messages.to_hub import NodeReport
from agents.messages.to_node import Pool, Run, Work
from agents.node.executor_life import MOST, MOST_OF_MEMBERS, WINDOW_S, ExecutorLife, LifeState, Step
from agents.node.executor_work import ExecutorWork
from agents.node.metrics import NodeFigures
from agents.node.pool_work import PoolWork
from agents.node.published import PortBook
from agents.node.settings import NodeSettings
from agents.node.sidecar_work import SidecarWork, sidecar_name

_log = logging.getLogger(__name__)

SIDECAR = ""
"""Stands for it among executors, none of which has this id."""
POOL = "kv_pool"
"""The same of the KV cache that they share."""
MOST_LETTERS = 1000
"""Of a failure, as it is reported."""


class InstanceWork:
    """Make it on a running loop. `changed` is called when the report has changed, `again` when `follow` is due.

    An executor that dies is started again while the others of its unit go on, as often as `ExecutorLife` allows.
    Where it is alone in its unit, the instance has failed."""

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
        self._settings, self._sidecar_name = settings, sidecar_name()
        port = PortBook(settings.ports).of
        self._new = partial(ExecutorWork, instance, keys, key_file, settings, changed, port, self._sidecar_name)
        self._changed, self._again = changed, again
        self._failure = ""
        self._executors: dict[str, ExecutorWork] = {}
        self._lives: dict[str, ExecutorLife] = {}
        self._sidecar: SidecarWork | None = None
        self._pool: PoolWork | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def follow(self, work: Work) -> None:
        """Start what is asked for and does not run. What has failed for good stays so: its instance is given up."""
        if self._failure:
            return
        if any(run.whole is not None and run.whole.components for run in work.runs):
            await self._follow_sidecar(work.slab_mib)
        if work.pool is not None and self._pool is None:
            await self._start_pool(work.pool)
        if self._failure:
            return
        # A member has no KV cache but the pool's, which is told once the files of all members are known.
        runs = [run for run in work.runs if run.member is None or self._pool is not None]
        await asyncio.gather(*(self._follow(run, work.drain) for run in runs))

    async def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        await asyncio.gather(*(executor.stop() for executor in self._executors.values()))
        if self._sidecar is not None:  # behind those who use it
            await self._sidecar.stop()
        if self._pool is not None:
            await self._pool.stop()

    def figures(self) -> tuple[NodeFigures, ...]:
        """Return figures for metrics, executor by executor."""
        return tuple(executor.figures() for executor in tuple(self._executors.values()))

    def report(self) -> NodeReport:
        reports = tuple(executor.report() for executor in self._executors.values())
        return NodeReport(self.instance, reports, self._failure[:MOST_LETTERS])

    async def _follow(self, run: Run, drain: bool) -> None:
        most = MOST if run.member is None else MOST_OF_MEMBERS
        life = self._lives.setdefault(run.executor, ExecutorLife(run.restarts, most))
        running = self._executors.get(run.executor)
        if running is not None and running.is_outdated(run):
            life.outdated()
        if running is not None and life.step(time.monotonic()) is Step.END:
            await running.stop()
            life.ended()
            self._changed()
        match life.step(time.monotonic()):
            case Step.WAIT:
                self._wait(run.executor, life.due_s - time.monotonic())
            case Step.START:
                spent = "" if running is None else running.scheduler_key
                life.started()
                pool = None if self._pool is None else self._pool.socket
                fresh = self._new(run.executor, spent, partial(self._died, run), pool=pool)
                self._executors[run.executor] = fresh
                await fresh.follow(run, drain)
            case Step.FOLLOW if running is not None:
                await running.follow(run, drain)
                if running.is_behind(run):  # the hub tells of no change twice
                    self._wait(run.executor, self._settings.report_s)

    async def _follow_sidecar(self, slab_mib: int) -> None:
        """Executors go on while it is away: what is asked of them then fails, and is asked again."""
        life = self._lives.setdefault(SIDECAR, ExecutorLife(restarts=True))
        if self._sidecar is not None and life.step(time.monotonic()) is Step.END:
            await self._sidecar.stop()
            life.ended()
        match life.step(time.monotonic()):
            case Step.WAIT:
                self._wait(SIDECAR, life.due_s - time.monotonic())
            case Step.START:
                life.started()
                self._sidecar = SidecarWork(self._sidecar_name, self._settings, self._lose_sidecar, slab_mib)
                await self._sidecar.start()

    async def _start_pool(self, pool: Pool) -> None:
        """Once: what members keep there is gone with it, and so is their instance."""
        life = self._lives[POOL] = ExecutorLife(restarts=False)
        life.started()
        self._pool = PoolWork(self._settings, self._lose_pool)
        await self._pool.start(pool)

    def _lose_pool(self, reason: str) -> None:
        self._lose(POOL, reason, ())

    def _lose_sidecar(self, reason: str) -> None:
        words = () if self._sidecar is None else self._sidecar.last_words
        self._lose(SIDECAR, f"tensor sidecar: {reason}", words)

    def _wait(self, executor: str, wait_s: float) -> None:
        if (timer := self._timers.get(executor)) is not None:
            timer.cancel()
        self._timers[executor] = asyncio.get_running_loop().call_later(max(wait_s, 0.0), self._again)

    def _died(self, run: Run, reason: str) -> None:
        named = f"executor {run.executor}: {reason}" if run.restarts else reason
        self._lose(run.executor, named, self._executors[run.executor].last_words)

    def _lose(self, name: str, reason: str, last_words: Sequence[str]) -> None:
        life = self._lives[name]
        life.died(time.monotonic())
        if life.state is not LifeState.FAILED:
            _log.warning("%s: %s", self.instance, reason)
            self._again()
        elif not self._failure:
            # The first reason is the cause: the others fall over it.
            self._failure = _given_up(reason, life, last_words)
        self._changed()


def _given_up(reason: str, life: ExecutorLife, last_words: Sequence[str]) -> str:
    """Say what an instance fails for good of; `reason` is the last death's."""
    if not life.restarts:
        return reason
    often = f"{reason}; it died {life.deaths} times within {WINDOW_S:.0f} s"
    return f"{often}, and last said: {' | '.join(last_words)}" if last_words else often
