"""A cloud made of logs: what it gives, takes back and charges, and how logs are read and joined."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from bench.joined_logs import joined_logs, part_of
from bench.log_files import AvailabilityTrace, read_availability_traces, read_daily_prices
from control.cloud.errors import GiveUpError, StockOutError
from control.cloud.node import NodeRequest
from control.simulator.log_cloud import LogCloud
from control.simulator.offer_log import OfferLog
from control.simulator.step_log import StepLog, step_log
from templates_lib.load.traces import TraceError
from templates_lib.values.offer import Market
from tests import factories as make

START = datetime(2026, 11, 21, tzinfo=UTC)
HOUR_S = 3600.0
SPOT = make.offer("A:1/n25", "aws/a", 0.0, None, market=Market.SPOT, instance_type="vm")


def cloud(nodes: list[tuple[float, float]], usd: list[tuple[float, float]]) -> LogCloud:
    return LogCloud("aws", [OfferLog(SPOT, step_log(usd), step_log(nodes))], START, seed=1)


def hours(number: float) -> datetime:
    return START + timedelta(hours=number)


def ask(name: str, instance_type: str = "vm") -> NodeRequest:
    return NodeRequest(name, "r", "a", instance_type, Market.SPOT, {"of": name}, ("true",))


def test_it_gives_what_the_log_says_and_the_same_node_to_who_asks_twice() -> None:
    world = cloud([(0, 2), (HOUR_S, 3)], [(0, 1.0)])
    assert world.create(ask("n1"), hours(0)) == world.create(ask("n1"), hours(0))
    world.create(ask("n2"), hours(0))
    with pytest.raises(StockOutError):
        world.create(ask("n3"), hours(0.9))
    world.create(ask("n3"), hours(1))
    assert [node.name for node in world.list({}, hours(1))] == ["n1", "n2", "n3"]
    assert [node.name for node in world.list({"of": "n2"}, hours(1))] == ["n2"]
    with pytest.raises(GiveUpError):
        world.create(ask("n4", "other"), hours(1))


def test_when_the_market_shrinks_the_excess_is_taken_at_that_moment_and_costs_until_then() -> None:
    world = cloud([(0, 3), (HOUR_S, 1), (2 * HOUR_S, 5)], [(0, 1.0), (HOUR_S / 2, 3.0)])
    for name in ("n1", "n2", "n3"):
        world.create(ask(name), hours(0))
    assert len(world.list({}, hours(3))) == 1
    assert [at for at, _ in world.taken] == [HOUR_S, HOUR_S]
    taken = 2 * (0.5 * 1.0 + 0.5 * 3.0)
    assert world.spent_usd(hours(3)) == pytest.approx(taken + 0.5 * 1.0 + 2.5 * 3.0)


def test_what_is_given_back_costs_no_more_and_makes_room() -> None:
    world = cloud([(0, 1)], [(0, 2.0)])
    world.create(ask("n1"), hours(0))
    world.terminate("n1", hours(1))
    world.terminate("n1", hours(2))
    assert world.spent_usd(hours(5)) == pytest.approx(2.0)
    world.create(ask("n2"), hours(5))


def test_offers_have_the_price_of_the_moment_and_say_no_count() -> None:
    world = cloud([(0, 1)], [(0, 2.0), (HOUR_S, 2.5)])
    assert [(o.usd_per_hour, o.available_count) for at in (0, 1) for o in world.offers(hours(at))] == [
        (2.0, None), (2.5, None)
    ]  # fmt: skip


def test_a_part_of_a_log_begins_with_what_held_then() -> None:
    log = StepLog((0.0, 10.0, 20.0), (1.0, 2.0, 4.0))
    part = part_of(log, 15.0, 10.0)
    assert (part.at(0.0), part.at(4.9), part.at(5.0)) == (2.0, 2.0, 4.0)
    assert log.integral(5.0, 25.0) == pytest.approx(5 * 1 + 10 * 2 + 5 * 4)


def test_logs_are_read_and_joined_by_a_rule_that_a_seed_repeats(tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text(
        "date,region,instance_type,on_demand_usd_h,spot_usd_h\n"
        "2024-08-01,a,vm,1.1,0.9\n2024-08-02,a,vm,1.0,0.4\n2024-08-03,a,vm,1.0,0.5\n2024-08-02,a,other,1.0,0.4\n"
    )
    traces = tmp_path / "traces.csv"
    traces.write_text(
        "kind,nodes,cloud,start_date,zone,resource,count_per_node,gap_seconds,start_s,ticks,available_nodes\n"
        "availability,4,aws,2023-01-01,z,v100,1,3600,0,100,4\n"
        "availability,4,aws,2023-01-01,z,v100,1,3600,360000,100,2\n"
        "availability,1,aws,2023-01-01,y,v100,1,3600,0,10,1\n"
    )
    rows, found = read_daily_prices(prices, date(2024, 8, 2), 2), read_availability_traces(traces, 5 * 86400.0)
    assert [(r.instance_type, r.on_demand_usd_per_hour, r.spot_usd_per_hour) for r in rows] == [
        ("other", 1.0, {0: 0.4}), ("vm", 1.0, {0: 0.4, 1: 0.5})
    ]  # fmt: skip
    assert [(t.share.values, t.duration_s) for t in found] == [((1.0, 0.5), 720_000.0)]
    logs = joined_logs(rows, found, {"vm": "A:1/n25"}, {"vm": 8}, 2, seed=3)
    assert logs == joined_logs(rows, found, {"vm": "A:1/n25"}, {"vm": 8}, 2, seed=3)
    assert [log.offer.market for log in logs] == [Market.ON_DEMAND, Market.SPOT]
    assert logs[0].nodes.values == (8.0,)
    assert set(logs[1].nodes.values) <= {8.0, 4.0}
    assert logs[1].usd_per_hour.values == (0.4, 0.5)


def test_a_row_that_makes_no_sense_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(
        "date,region,instance_type,on_demand_usd_h,spot_usd_h\n2024-08-02,a,vm,1.0,0.4\n2024-08-03,a,vm,x,0.5\n"
    )
    with pytest.raises(TraceError, match=r"prices\.csv:3"):
        read_daily_prices(path, date(2024, 8, 2), 2)


def test_losses_are_counted_by_share_over_the_hours_in_which_there_was_something_to_lose() -> None:
    trace = AvailabilityTrace("t", StepLog((0.0, HOUR_S, 2 * HOUR_S), (1.0, 0.0, 1.0)), 4 * HOUR_S)
    assert trace.losses_per_hour() == pytest.approx(1 / 3)
