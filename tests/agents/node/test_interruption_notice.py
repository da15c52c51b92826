"""A node that its cloud will take: the agent hears it from the machine, the hub from the agent, and drains ahead."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from tests.agents.node.metadata_endpoint import AwsMachine
from tests.agents.node.sites import Site, play, until
from tests.http_endpoint import serving


def test_an_announced_end_becomes_a_drain(site: Site, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = AwsMachine()
    soon = datetime.now(UTC) + timedelta(hours=1)
    machine.action = {"action": "terminate", "time": soon.isoformat()}

    async def scenario(site: Site) -> None:
        agent = site.start()
        await until(lambda: site.connected(agent))
        site.deploy(agent, tiny_llama)
        await until(site.board.announced)
        site.deploy(agent, tiny_llama, InstanceState.READY)
        await until(lambda: site.report(agent))
        ((instance, event),) = site.board.events(0.0)
        assert (instance, event.kind) == ("i1", EventKind.DRAIN)
        assert re.fullmatch(
            rf"{agent.name} will be taken in \d+ s: spot interruption: terminate at {re.escape(soon.isoformat())}",
            event.reason,
        )

    with serving(machine.answer) as endpoint:
        monkeypatch.setenv("MEDLEY_CLOUD", "aws")
        monkeypatch.setenv("MEDLEY_METADATA_URL", endpoint.url)
        play(site, scenario)
