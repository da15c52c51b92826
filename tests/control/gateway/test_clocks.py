"""Gateways on hosts whose clocks differ by an hour, before the same instances."""

import asyncio
import threading
from pathlib import Path

import pytest

from agents.channels.peer import Peer
from agents.echo.scheduler import EchoSettings
from policies.places import Places
from templates_lib.values.slo import Slo
from tests.control.gateway.echo_fleet import EchoFleet, echo_fleet, ended, slack_model, whole
from tests.control.gateway.test_slack_queue import assert_whole, nothing_waits

HOUR_S = 3600.0
DAY_S = 86_400.0
"""On every clock: a loop's counts from when its machine was started, and one that had an hour less would not have come
to zero on a machine that was started less than an hour ago, before which nothing is ever due."""
CALLS = 60
MOST_S = 600.0
"""Until calls of `EchoFleet.call` are given up."""


class OtherClock(asyncio.SelectorEventLoop):
    """An event loop of a host whose clock is off by so much."""

    def __init__(self, off_s: float) -> None:
        self._off_s = off_s
        super().__init__()

    def time(self) -> float:
        return super().time() + self._off_s


@pytest.mark.parametrize("off_s", [HOUR_S, -HOUR_S])
def test_nothing_that_a_gateway_sends_depends_on_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off_s: float
) -> None:
    all_usable = threading.Barrier(2, timeout=60)
    clocks = (DAY_S, DAY_S + off_s)
    asked: list[tuple[Peer, float]] = []
    ask = Places[Peer].ask

    def noted(places: Places[Peer], gateway: Peer, slack_s: float, calls: int, now_s: float) -> None:
        asked.append((gateway, slack_s))
        ask(places, gateway, slack_s, calls, now_s)

    monkeypatch.setattr(Places, "ask", noted)

    async def gateway(fleet: EchoFleet) -> None:
        dispatcher = fleet.dispatcher()
        try:
            fleet.publish(dispatcher, slack_model(whole("one", 0.01), objective=Slo(1e3, 1e3)))
            await fleet.usable(dispatcher)
            all_usable.wait()
            calls = [fleet.call(8) for _ in range(CALLS)]
            for call in calls:
                dispatcher.start(call)
            for call in calls:
                assert_whole(await ended(call))
            assert nothing_waits(dispatcher)
        finally:
            dispatcher.close()
            fleet.dispatchers.remove(dispatcher)

    def on_a_host(fleet: EchoFleet, clock_s: float) -> None:
        with asyncio.Runner(loop_factory=lambda: OtherClock(clock_s)) as runner:
            runner.run(gateway(fleet))

    async def scenario() -> None:
        settings = EchoSettings(max_running=2, step_s=0.005, tokens_per_step=4)
        with echo_fleet(tmp_path, one=settings) as fleet:
            await asyncio.gather(*(asyncio.to_thread(on_a_host, fleet, clock_s) for clock_s in clocks))
            requests = list(fleet.schedulers["one"].calls)
        assert len(requests) == len(clocks) * CALLS
        # What an instance is told is how long a request still has, not when that is over by the gateway's clock.
        assert all(MOST_S - 120 < request.deadline_s <= MOST_S for request in requests)
        # So is when what waits must begin: the place of one gateway is not put before another's by its clock.
        assert len({gateway for gateway, _ in asked}) == len(clocks)
        assert all(abs(slack_s) < MOST_S for _, slack_s in asked)

    asyncio.run(scenario())
