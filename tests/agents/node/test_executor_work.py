"""An executor whose scheduler runs goes on when it cannot be told of other gateways, and is told later."""

import asyncio
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as changed

from agents.channels.keys import KeyPair
from agents.messages.to_node import Run, Work
from agents.node.instance_work import InstanceWork
from agents.scheduler.instance_file import InstanceFile, read_instance_file
from templates_lib.values.placement import ONLY
from tests.agents.channels.channel_ends import PATIENCE_S
from tests.agents.node.test_scheduler_command import SCHEDULER
from tests.agents.node.test_worker_commands import CUDA


def test_gateways_that_could_not_be_written_end_nothing_and_are_written_later(tmp_path: Path) -> None:
    keys, path = KeyPair.generate(), tmp_path / f"{ONLY}.json"
    gateways = {KeyPair.generate().public: "gateway-1", KeyPair.generate().public: "gateway-2"}
    first = Run(ONLY, "chat", "echo", changed(SCHEDULER, gateways=dict(list(gateways.items())[:1])))
    then = changed(first, scheduler=changed(SCHEDULER, gateways=gateways))

    async def scenario() -> InstanceFile:
        again = asyncio.Event()
        settings = replace(CUDA, device="cpu", home=tmp_path, report_s=0.01)
        work = InstanceWork("i-1", keys, tmp_path / "key", settings, lambda: None, again.set)
        try:
            await work.follow(Work("i-1", (first,)))
            good = path.read_bytes()
            path.write_bytes(b"{")
            await work.follow(Work("i-1", (then,)))
            assert work.report().failure == ""
            async with asyncio.timeout(PATIENCE_S):
                await again.wait()
            path.write_bytes(good)
            await work.follow(Work("i-1", (then,)))
            return read_instance_file(path)
        finally:
            await work.stop()

    assert gateways.items() <= asyncio.run(scenario()).gateways.items()
