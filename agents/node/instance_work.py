"""What a node does for one instance: stage workers, and on one of its nodes the instance's scheduler."""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

from agents.channels.dialer import Address
from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.messages.to_hub import NodeReport, SchedulerReport, StageReport
from agents.messages.to_node import RunScheduler, RunStage, Work
from agents.node.child import Child
from agents.node.metrics import NodeFigures
from agents.node.scheduler_command import scheduler_command
from agents.node.scheduler_link import SchedulerLink
from agents.node.settings import NodeSettings
from agents.node.worker_commands import worker_commands
from templates_lib.models.weights_place import NoWeightsError

_MIB = 1 << 20


class InstanceWork:
    """Make it on a running loop. `changed` is called when the report has changed."""

    def __init__(
        self, instance: str, keys: KeyPair, key_file: Path, settings: NodeSettings, changed: Callable[[], None]
    ) -> None:
        self.instance = instance
        self.failure = ""
        self._keys = keys
        self._key_file = key_file
        self._settings = settings
        self._changed = changed
        self._scheduler: Child | None = None
        self._workers: list[Child] = []
        self._processes: list[psutil.Process] = []
        """Of the workers."""
        self._since_s = 0.0
        self._meeting: tempfile.TemporaryDirectory[str] | None = None
        """Where they find each other."""
        self._link: SchedulerLink | None = None
        self._said: SchedulerReport | None = None
        self._stage_said: StageReport | None = None
        self._model = ""

    async def follow(self, work: Work) -> None:
        """Start what is asked for and does not run. What has failed stays so: its instance is given up."""
        self._model = work.model
        try:
            if not self.failure and work.scheduler is not None and self._scheduler is None:
                await self._start_scheduler(work.model, work.scheduler)
            if not self.failure and work.stage is not None and not self._workers:
                await self._start_workers(work.engine, work.stage)
        except (NoWeightsError, BadKeyError, OSError, ValueError) as error:
            self._fail(str(error))
        if work.drain and self._link is not None:
            self._link.drain()

    async def stop(self) -> None:
        if self._link is not None:
            self._link.close()
        children = [*self._workers, *([] if self._scheduler is None else [self._scheduler])]
        await asyncio.gather(*(child.stop(self._settings.grace_s) for child in children))
        if self._meeting is not None:
            self._meeting.cleanup()

    def figures(self) -> NodeFigures:
        """For metrics; the scheduler's counters are as of the beat before."""
        stats = None if self._link is None else self._link.stats
        return NodeFigures(self.instance, self._model, self._stage_said, stats)

    def report(self) -> NodeReport:
        if self._link is not None:
            self._link.ask()
        said = self._said
        if said is not None and self._link is not None:
            said = SchedulerReport(said.endpoint, said.stages, said.public_key, self._link.status)
        self._stage_said = self._stage_report()
        return NodeReport(self.instance, said, self._stage_said, self.failure[:1000])

    async def _start_scheduler(self, model: str, run: RunScheduler) -> None:
        # A key pair of its own: the node's stands for the worker.
        keys, key_file = KeyPair.generate(), self._settings.home / f"{self.instance}.scheduler.key"
        key_file.unlink(missing_ok=True)
        keys.save(key_file)
        command = scheduler_command(model, run, self._keys.public, key_file, self._settings)
        self._scheduler = await Child.start("scheduler", command, self._fail)
        line = await self._scheduler.first_line()
        if not line:
            return  # it has ended, and `_fail` says why
        where = json.loads(line)
        self._said = SchedulerReport(where["endpoint"], where["stages"], where["public_key"])
        address = Address(where["endpoint"], where["public_key"])
        self._link = SchedulerLink(address, self._keys, self._changed, self._settings.channel)
        self._changed()

    async def _start_workers(self, engine: str, run: RunStage) -> None:
        """All of them, or as many as there are until one cannot be started: then the instance has failed."""
        self._meeting = tempfile.TemporaryDirectory(prefix="workers-", dir=self._settings.home)
        commands = worker_commands(engine, run, self._key_file, self._settings, Path(self._meeting.name))
        self._since_s = time.monotonic()
        for number, command in enumerate(commands):
            which = f"worker {number + 1} of {len(commands)}: " if len(commands) > 1 else ""
            child = await Child.start("stage", command.arguments, partial(self._lose, which), command.environment)
            self._workers.append(child)
            with contextlib.suppress(psutil.Error):
                self._processes.append(psutil.Process(child.pid))

    def _stage_report(self) -> StageReport | None:
        """Of all workers together."""
        if not self._workers:
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
            self._changed()
