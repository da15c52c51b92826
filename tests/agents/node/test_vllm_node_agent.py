"""A node agent whose stage is vLLM's."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agents.messages.to_gateway import SchedulerState
from control.hub.deployed import Deployed, ModelFiles
from control.lifecycle.state import InstanceState
from tests.agents.engines.tiny_models import save_model
from tests.agents.node.sites import Agent, Site, end, gang, play, until
from tests.conftest import VLLM_PYTHON

LOAD_TIMEOUT_S = 240


@pytest.fixture(scope="module")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its heads have a size that vLLM has kernels for."""
    folder = tmp_path_factory.mktemp("tiny-qwen3")
    save_model("qwen3", folder)
    return folder


def deploy(site: Site, agent: Agent, weights: Path) -> None:
    files = ModelFiles("tiny", f"path:{weights}", 192, 256)
    with_vllm = replace(gang(), engine="vllm")
    site.board.deploy([Deployed("i1", InstanceState.LOADING, with_vllm, files, (agent.name,), (0,))])
    site.tell()


@pytest.mark.needs("vllm")
def test_a_node_runs_its_stage_with_the_python_that_has_vllm(
    site: Site, tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_VLLM_PYTHON", str(VLLM_PYTHON))

    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        deploy(site, agent, tiny_qwen3)
        async with asyncio.timeout(LOAD_TIMEOUT_S):
            while site.state(agent) is not SchedulerState.READY:
                assert not site.failure(agent)
                site.tell()
                await asyncio.sleep(0.1)
        assert end(agent) == (0, [])

    play(site, scenario)


def test_a_node_without_vllm_says_so(site: Site, tiny_qwen3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEDLEY_VLLM_PYTHON", raising=False)

    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        deploy(site, agent, tiny_qwen3)
        await until(lambda: "this node has no vLLM" in site.failure(agent) or site.tell())
        assert agent.process.poll() is None

    play(site, scenario)
