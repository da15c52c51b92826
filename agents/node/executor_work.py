"""Work of a node for one executor of an instance: stage workers, and on one of its nodes the scheduler."""

import asyncio
import contextlib
import json
import logging
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

from agents.channels.address import Address
from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.messages.to_hub import ExecutorReport, SchedulerReport, StageReport
from agents.messages.to_node import Run, RunScheduler, RunStage
from agents.node.child import Child
from agents.node.metrics import NodeFigures
from agents.node.published import PublishedPort
from agents.node.scheduler_command import let_in, scheduler_command
from agents.node.scheduler_link import SchedulerLink
from agents.node.settings import NodeSettings
from agents.node.worker_commands import worker_commands
from agents.scheduler.instance_file import BadInstanceFileError
from templates_lib.models.weights_place import NoWeightsError
from templates_lib.values.engines import engine_kind

_log = logging.getLogger(__name__)

_MIB = 1 << 20


class ExecutorWork:
    """One life of an executor, from start to death. Make it on a running loop. `changed` is called when the report has
    changed, `died` once, with why."""

    def __init__(
        self,
        instance: str,
        keys: KeyPair,
        key_file: Path,
        settings: NodeSettings,
        changed: Callable[[], None],
        port: Callable[[str], PublishedPort | None],
        sidecar: str,
        name: str,
        spent_key: str,
        died: Callable[[str], None],
        pool: Path | None = None,
    ) -> None:
        """`port`: of an executor's scheduler, None where gateways reach any; raises ValueError where none is left.
        `sidecar`: name of the node's. `spent_key`: of the scheduler of an earlier life, which is gone. `pool`: socket
        of the KV cache that executors of the node share; None: there is none."""
        self.instance, self.name = instance, name
        self.failure = ""
        self.scheduler_key = spent_key
        """Of the scheduler that its workers have, or had."""
        self._died = died
        self._keys = keys
        self._key_file = key_file
        self._settings = settings
        self._changed = changed
        self._port, self._sidecar, self._pool = port, sidecar, pool
        self._scheduler: Child | None = None
        self._workers: list[Child] = []
        self._processes: list[psutil.Process] = []
        """Of the engine: its workers, or the scheduler that serves alone."""
        self._since_s = 0.0
        self._meeting: tempfile.TemporaryDirectory[str] | None = None
        """Where they find each other."""
        self._link: SchedulerLink | None = None
        self._let_in: dict[str, str] = {}
        """Gateways that its scheduler lets in: public key → name."""
        self._said: SchedulerReport | None = None
        self._stage_said: StageReport | None = None
        self._model = ""

    async def follow(self, run: Run, drain: bool) -> None:
        """Start what is asked for and does not run. What has failed stays so."""
        self._model = run.model
        try:
            if not self.failure and run.scheduler is not None and self._scheduler is None:
                await self._start_scheduler(run, run.scheduler)
            if run.scheduler is not None:
                self._let_in_gateways(run, run.scheduler)
            if not self.failure and run.stage is not None and self._has_new_scheduler(run) and not self._workers:
                await self._start_workers(run, run.stage)
        except (NoWeightsError, BadKeyError, OSError, ValueError) as error:
            self._fail(str(error))
        if drain and self._link is not None:
            self._link.drain()

    def is_outdated(self, run: Run) -> bool:
        """Tell whether its workers belong to a scheduler that is not there any more."""
        return run.restarts and bool(self._workers) and self._has_new_scheduler(run)

    def is_behind(self, run: Run) -> bool:
        """Tell whether its scheduler, which runs, lets in other gateways than it should: it is to be followed again."""
        return self._scheduler is not None and run.scheduler is not None and run.scheduler.gateways != self._let_in

    @property
    def last_words(self) -> tuple[str, ...]:
        """Return the last lines of the log of the process that has ended; none while all of them run."""
        return next((child.last_words for child in self._children if child.is_over), ())

    async def stop(self) -> None:
        """End its processes. A second call does nothing."""
        if self._link is not None:
            self._link.close()
        await asyncio.gather(*(child.stop(self._settings.grace_s) for child in self._children))
        if self._meeting is not None:
            self._meeting.cleanup()
        self._link = self._said = self._scheduler = self._meeting = None
        self._workers, self._processes, self._since_s = [], [], 0.0

    def figures(self) -> NodeFigures:
        """Return its figures for metrics; the scheduler's counters are as of the beat before."""
        stats = None if self._link is None else self._link.stats
        return NodeFigures(self.instance, self._model, self._stage_said, stats)

    def report(self) -> ExecutorReport:
        if self._link is not None:
            self._link.ask()
        said = self._said
        if said is not None and self._link is not None:
            said = SchedulerReport(said.endpoint, said.stages, said.public_key, self._link.status)
        self._stage_said = self._stage_report()
        return ExecutorReport(self.name, said, self._stage_said)

    @property
    def _children(self) -> tuple[Child, ...]:
        return (*self._workers, *(() if self._scheduler is None else (self._scheduler,)))

    def _has_new_scheduler(self, run: Run) -> bool:
        return run.stage is not None and run.stage.scheduler_key != self.scheduler_key

    async def _start_scheduler(self, run: Run, scheduler: RunScheduler) -> None:
        # A key pair of its own: the node's stands for the worker.
        keys, key_file = KeyPair.generate(), self._settings.home / f"{self.instance}.{self.name}.scheduler.key"
        key_file.unlink(missing_ok=True)
        keys.save(key_file)
        self._let_in = scheduler.gateways
        port = self._port(self.name)
        number = 0 if port is None else port.number
        own = self._keys.public, key_file, self._settings
        command = scheduler_command(run, scheduler, *own, number, self._sidecar, self._pool)
        kind = engine_kind(run.engine)
        name = run.engine if kind.is_whole else "scheduler"
        self._scheduler = await Child.start(name, command.arguments, self._fail, command.environment)
        if not kind.loader:
            self._measure(self._scheduler)
        line = await self._scheduler.first_line()
        if not line:
            return  # it has ended, and `_fail` says why
        where = json.loads(line)
        here = where["endpoint"] if port is None else f"tcp://127.0.0.1:{port.number}"
        self._said = SchedulerReport(here if port is None else port.endpoint, where["stages"], where["public_key"])
        address = Address(here, where["public_key"])
        self._link = SchedulerLink(address, self._keys, self._changed, self._settings.channel)
        self._changed()

    def _let_in_gateways(self, run: Run, scheduler: RunScheduler) -> None:
        """Tell the scheduler which gateways to let in, where they are others than before."""
        if not self.is_behind(run):
            return
        try:
            let_in(run, scheduler, self._keys.public, self._settings)
        except (OSError, BadInstanceFileError) as error:
            # No reason to end what serves well: its gateways stay as they were until it is followed again.
            _log.error("gateways of executor %s stay as they were for now: %s", self.name, error)
        else:
            self._let_in = scheduler.gateways

    async def _start_workers(self, run: Run, stage: RunStage) -> None:
        """All of them, or as many as there are until one cannot be started: then the executor has failed."""
        self.scheduler_key = stage.scheduler_key
        self._meeting = tempfile.TemporaryDirectory(prefix="workers-", dir=self._settings.home)
        meeting = Path(self._meeting.name)
        share = run.compute, run.devices, run.processor_share
        member = None if run.member is None or self._pool is None else (self._pool, run.member)
        commands = worker_commands(run.engine, stage, self._key_file, self._settings, meeting, *share, member)
        for number, command in enumerate(commands):
            which = f"worker {number + 1} of {len(commands)}: " if len(commands) > 1 else ""
            child = await Child.start("stage", command.arguments, partial(self._lose, which), command.environment)
            self._workers.append(child)
            self._measure(child)

    def _measure(self, child: Child) -> None:
        """Count the processor time of a child that computes among the engine's figures, from now on."""
        self._since_s = self._since_s or time.monotonic()
        with contextlib.suppress(psutil.Error):
            self._processes.append(psutil.Process(child.pid))

    def _stage_report(self) -> StageReport | None:
        """Figures of all processes of the engine together."""
        if not self._since_s:
            return None
        memory, share = 0, 0.0
        for process in self._processes:
            with contextlib.suppress(psutil.Error):
                memory += process.memory_info().rss // _MIB
                share += process.cpu_percent() / 100
        return StageReport(time.monotonic() - self._since_s, memory, share)

    def _lose(self, which: str, reason: str) -> None:
        self._fail(which + reason)

    def _fail(self, reason: str) -> None:
        # The first reason is the cause: the others fall over it.
        if not self.failure:
            self.failure = reason
            self._died(reason)
