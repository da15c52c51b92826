"""The tensor sidecar as a child of a node agent: it serves, or its node hears why not."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from agents.channels.address import Address
from agents.node.settings import NodeSettings
from agents.node.sidecar_work import SidecarWork, sidecar_name
from agents.tensors.client import TensorClient


def settings_in(home: Path) -> NodeSettings:
    return NodeSettings(home, Address("tcp://127.0.0.1:1", "k" * 40), slab_mib=16)


@pytest.mark.parametrize(("own", "asked", "mib"), [(16, 32, 16), (0, 32, 32), (0, 0, 256)])
def test_its_slab_is_as_large_as_the_node_says_or_else_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: int, asked: int, mib: int
) -> None:
    echo, said = tmp_path / "python", tmp_path / "said"
    echo.write_text(f'#!/bin/sh\necho "$@" | tee {said}\nexec sleep 600\n')
    echo.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(echo))

    async def scenario() -> None:
        work = SidecarWork(sidecar_name(), replace(settings_in(tmp_path), slab_mib=own), lambda _: None, asked)
        await work.start()
        await work.stop()

    asyncio.run(scenario())
    assert f"--slab-mib {mib} " in said.read_text()


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def test_it_serves_once_it_is_started(tmp_path: Path) -> None:
    name, deaths = sidecar_name(), list[str]()

    async def scenario() -> None:
        work = SidecarWork(name, settings_in(tmp_path), deaths.append)
        await work.start()
        await asyncio.to_thread(lambda: TensorClient(name, "executor").close())
        await work.stop()

    asyncio.run(scenario())
    assert not deaths


def test_one_that_never_serves_is_ended_and_said_to_be_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = tmp_path / "python"
    stuck.write_text("#!/bin/sh\nexec sleep 600\n")
    stuck.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(stuck))
    before, deaths = children(), list[str]()

    async def scenario() -> None:
        await SidecarWork(sidecar_name(), settings_in(tmp_path), deaths.append, start_s=0.2).start()
        assert len(deaths) == 1
        assert children() <= before

    asyncio.run(scenario())
    assert len(deaths) == 1, "its end is no second death"
