"""A cloud made of logs: what is held, taken back and charged, whatever the logs and the calls."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.cloud.errors import StockOutError
from control.cloud.node import NodeRequest
from control.simulator.log_cloud import LogCloud
from control.simulator.offer_log import OfferLog, SharedLog
from control.simulator.step_log import step_log
from templates_lib.values.offer import Market
from tests import factories as make

START = datetime(2026, 11, 21, tzinfo=UTC)
LENGTH_S = 100
MARKETS = {"a": Market.SPOT, "b": Market.SPOT, "c": Market.ON_DEMAND}

times = st.integers(0, LENGTH_S - 1)
stock = st.lists(st.tuples(times, st.integers(0, 4)), max_size=5)
prices = st.lists(st.tuples(times, st.integers(1, 9)), max_size=5)
calls = st.lists(st.tuples(times, st.sampled_from(sorted(MARKETS)), st.booleans(), st.integers(0, 6)), max_size=30)


def step(pairs: list[tuple[int, int]], first: int) -> list[tuple[float, float]]:
    return [(0.0, float(first)), *((float(t), float(v)) for t, v in {t: v for t, v in pairs if t > 0}.items())]


@given(
    nodes=st.fixed_dictionaries(dict.fromkeys(MARKETS, stock)),
    usd=st.fixed_dictionaries(dict.fromkeys(MARKETS, prices)),
    together=stock,
    asked=calls,
)
def test_no_more_is_held_than_the_logs_allow_and_every_second_of_it_is_charged_at_its_price(
    nodes: dict[str, list[tuple[int, int]]],
    usd: dict[str, list[tuple[int, int]]],
    together: list[tuple[int, int]],
    asked: list[tuple[int, str, bool, int]],
) -> None:
    logs = {
        name: OfferLog(
            make.offer("A:1", "aws/z", 1.0, None, market=market, instance_type=name),
            step_log(step(usd[name], 1)),
            step_log(step(nodes[name], 3)),
        )
        for name, market in MARKETS.items()
    }
    keys = {log.offer.key: name for name, log in logs.items()}
    limit = SharedLog("both", dict.fromkeys(keys, 1.0), step_log(step(together, 5)))
    cloud = LogCloud("aws", logs.values(), START, 1, [limit])
    for at_s, kind, gives_back, number in sorted(asked):
        now, name = START + timedelta(seconds=at_s), f"n{number}"
        if gives_back:
            cloud.terminate(name, now)
        else:
            with suppress(StockOutError):
                cloud.create(NodeRequest(name, "r", "z", kind, MARKETS[kind], {}, ("true",)), now)
    end = START + timedelta(seconds=LENGTH_S)
    charged = cloud.spent_usd(end)
    lives = cloud.lives()
    # Every call and every change of a log is at a whole second, so a second is of one price and of one number.
    owed = 0.0
    for second in range(LENGTH_S):
        there = [life for life in lives if life.from_s <= second < life.until_s]
        owed += sum(logs[keys[life.offer.key]].usd_per_hour.at(second) for life in there) / 3600
        for key, name in keys.items():
            own = [life for life in there if life.offer.key == key]
            if MARKETS[name] is Market.SPOT or any(life.from_s == second for life in own):
                assert len(own) <= logs[name].nodes.at(second)
        if there and all(life.offer.market is Market.SPOT for life in there):
            assert len(there) <= limit.limit.at(second)
    assert charged == pytest.approx(owed, abs=1e-9)
    halves = cloud.spent_between_usd(0, LENGTH_S / 2) + cloud.spent_between_usd(LENGTH_S / 2, LENGTH_S)
    assert halves == pytest.approx(owed, abs=1e-9)
    # A name may be used again: what was taken is the life that ended then.
    taken = set(cloud.taken)
    ended = [life for life in lives if (life.until_s, life.node.name) in taken and life.from_s < life.until_s]
    assert all(life.offer.market is Market.SPOT for life in ended)
