"""What an agent says of the GPUs of its machine, by a tool that prints what NVIDIA's does."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from agents.messages.to_hub import GpuReport
from agents.node.gpus import read_gpus
from control.hub.deployed import Deployed
from control.hub.gang import Gang
from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from tests.agents.node.sites import AGENT, Site, gang, play, until


def install(folder: Path, script: str) -> None:
    """As the machine's `nvidia-smi`."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo 'NVIDIA L40S, 46068'; echo 'NVIDIA L40S, 46068'", (GpuReport("NVIDIA L40S", 46068),) * 2),
        (
            "echo 'NVIDIA H100 80GB HBM3, 81559'; echo '[Unknown Error], [N/A]'",
            (GpuReport("NVIDIA H100 80GB HBM3", 81559),),
        ),
        ("echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver'; exit 9", ()),
        ("echo nonsense", ()),
        ("", ()),  # there is no such tool
    ],
)
def test_gpus_are_read_where_the_driver_tells_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, found: tuple[GpuReport, ...]
) -> None:
    if script:
        install(tmp_path, script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin" if script else str(tmp_path))
    assert asyncio.run(read_gpus()) == found


def test_a_node_that_is_another_machine_than_was_rented_is_refused_with_what_it_is(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "echo 'Tesla T4, 15360'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (executor,) = gang().executors
    rented = Gang((replace(executor, places=(replace(executor.places[0], config="L4:1/n10"),)),))

    async def scenario(site: Site) -> None:
        agent = site.start((*AGENT, "--device", "cuda"))
        await until(lambda: site.connected(agent))
        site.board.deploy([Deployed("i1", InstanceState.LOADING, rented, {}, (agent.name,), (0,))])
        site.tell()
        await until(site.board.other_machines)
        ((instance, event),) = site.board.events(0.0)
        assert (instance, event.kind) == ("i1", EventKind.BROKE)
        assert "1 x Tesla T4 with 15360 MiB" in event.reason

    play(site, scenario)
