"""What a node does for one instance: a stage worker, and on one of its nodes the instance's scheduler."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from agents.channels.dialer import Address
from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair
from agents.messages.to_hub import NodeReport, SchedulerReport, StageReport
from agents.messages.to_node import RunScheduler, Work
from agents.node.child import Child
from agents.node.commands import scheduler_command, stage_command
from agents.node.metrics import NodeFigures
from agents.node.scheduler_link import SchedulerLink
from agents.node.settings import NodeSettings
from templates_lib.weights_place import NoWeightsError

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
        self._stage: Child | None = None
        self._stage_since_s = 0.0
        self._stage_process: psutil.Process | None = None
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
            if not self.failure and work.stage is not None and self._stage is None:
                command = stage_command(work.engine, work.stage, self._key_file, self._settings)
                self._stage_since_s = time.monotonic()
                self._stage = await Child.start("stage", command, self._fail)
                with contextlib.suppress(psutil.Error):
                    self._stage_process = psutil.Process(self._stage.pid)
        except (NoWeightsError, BadKeyError, OSError, ValueError) as error:
            self._fail(str(error))
        if work.drain and self._link is not None:
            self._link.drain()

    async def stop(self) -> None:
        if self._link is not None:
            self._link.close()
        children = [child for child in (self._stage, self._scheduler) if child is not None]
        await asyncio.gather(*(child.stop(self._settings.grace_s) for child in children))

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

    def _stage_report(self) -> StageReport | None:
        if self._stage is None:
            return None
        memory, share = 0, 0.0
        if self._stage_process is not None:
            with contextlib.suppress(psutil.Error):
                memory = self._stage_process.memory_info().rss // _MIB
                share = self._stage_process.cpu_percent() / 100
        return StageReport(time.monotonic() - self._stage_since_s, memory, share)

    def _fail(self, reason: str) -> None:
        # The first reason is the cause: the others fall over it.
        if not self.failure:
            self.failure = reason
            self._changed()
