"""A node agent that is to run a stage of vLLM and has none; in `tests/e2e/test_mixed_engines.py` one has it."""

from dataclasses import replace
from pathlib import Path

import pytest

from control.hub.deployed import Deployed, ModelFiles
from control.hub.gang import Gang
from control.lifecycle.state import InstanceState
from tests.agents.node.sites import Site, gang, play, until


def test_a_node_without_vllm_says_so(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEDLEY_VLLM_PYTHON", raising=False)

    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        files = ModelFiles("tiny", f"path:{tmp_path}", 192, 256)
        (executor,) = gang().executors
        with_vllm = Gang((replace(executor, engine="vllm"),))
        site.board.deploy([Deployed("i1", InstanceState.LOADING, with_vllm, {executor.id: files}, (agent.name,), (0,))])
        await until(lambda: "this node has no vllm" in site.failure(agent) or site.tell())
        assert agent.process.poll() is None

    play(site, scenario)
