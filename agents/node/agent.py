"""The node agent: hears from the hub what to do, does it, and reports."""

import asyncio
import logging
from pathlib import Path

from msgspec import structs

from agents.channels.dialer import Dialer
from agents.channels.errors import ChannelError
from agents.channels.keys import KeyPair
from agents.messages.to_hub import GpuReport, NodeReport
from agents.messages.to_node import ToNode, Work, WorkOfOne
from agents.node.gpus import read_gpus
from agents.node.instance_work import InstanceWork
from agents.node.interruption_watch import InterruptionWatch
from agents.node.metadata import metadata_of
from agents.node.metrics import NodeFigures, serve_metrics
from agents.node.settings import NodeSettings

_log = logging.getLogger(__name__)


class NodeAgent:
    """Make it on a running loop, once the node's key is registered; `run` until cancelled.

    While the hub is away, what runs goes on."""

    def __init__(self, keys: KeyPair, key_file: Path, settings: NodeSettings) -> None:
        self._keys = keys
        self._key_file = key_file
        self._settings = settings
        self._wanted = Work()
        self._running: InstanceWork | None = None
        self._gpus: tuple[GpuReport, ...] = ()
        self._told = asyncio.Event()
        self._due = asyncio.Event()
        metadata = metadata_of(settings.cloud, settings.metadata)
        self._watch = None if metadata is None else InterruptionWatch(metadata, self._due.set)
        metrics = serve_metrics(settings.interface, self._figures)
        self._metrics = "" if settings.ports else metrics
        """URL for others; empty where nobody else reaches it."""
        self._dialer: Dialer[ToNode] = Dialer(settings.hub, keys, "node", ToNode, self, settings.channel)

    async def run(self) -> None:
        beside = [asyncio.create_task(self._report())]
        if self._settings.device == "cuda":
            beside.append(asyncio.create_task(self._look_at_gpus()))
        if self._watch is not None:
            beside.append(asyncio.create_task(self._watch.run()))
        try:
            while True:
                await self._told.wait()
                self._told.clear()
                await self._follow(self._wanted)
        finally:
            for task in beside:
                task.cancel()
            self._dialer.close()
            if self._running is not None:
                await self._running.stop()

    def up(self) -> None:
        self._due.set()

    def received(self, message: ToNode) -> None:
        self._wanted = message.work if isinstance(message, WorkOfOne) else message
        self._told.set()

    def down(self, reason: str) -> None:
        """Do nothing: what was told before still holds."""

    async def _follow(self, work: Work) -> None:
        running = self._running
        if running is not None and running.instance != work.instance:
            _log.info("work for %s ends", running.instance)
            self._running = None
            await running.stop()
        if work.instance and self._running is None:
            _log.info("work for %s begins", work.instance)
            self._running = InstanceWork(
                work.instance, self._keys, self._key_file, self._settings, self._due.set, self._told.set
            )
        if self._running is not None:
            await self._running.follow(work)
        self._due.set()

    async def _look_at_gpus(self) -> None:
        self._gpus = await read_gpus()
        self._due.set()

    def _figures(self) -> tuple[NodeFigures, ...]:
        return () if self._running is None else self._running.figures()

    async def _report(self) -> None:
        """Report to the hub after every change, and at every beat."""
        while True:
            try:
                async with asyncio.timeout(self._settings.report_s):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            if self._dialer.is_up:
                try:
                    report = self._running.report() if self._running is not None else NodeReport("")
                    notice = None if self._watch is None else self._watch.report()
                    report = structs.replace(report, metrics=self._metrics, interruption=notice, gpus=self._gpus)
                    self._dialer.send(report if self._dialer.protocol > 1 else report.of_one)
                except ChannelError as error:
                    _log.warning("cannot report: %s", error)
