"""Logs of prices and of stock: gaps and other mistakes are told with their line; what holds when."""

from datetime import UTC, datetime
from math import inf
from pathlib import Path

import pytest

from control.fleet_file.problem import SpecError
from control.offers.quotes import Quotes
from control.simulator.market_log import MarketLog, market_log
from control.simulator.market_rows import LogTime, Place, read_log
from control.simulator.step_log import StepLog
from templates_lib.values.offer import Market
from tests import factories as make

START = datetime(2024, 8, 2, tzinfo=UTC)
HOUR_S = 3600.0
DAY = LogTime(START, 24 * HOUR_S, 6 * HOUR_S)
A = Place("aws/a", "vm", Market.SPOT)


def log(folder: Path, *rows: str, column: str = "usd_per_hour") -> Path:
    path = folder / "log.csv"
    path.write_text("\n".join((f"time,zone,machine,market,{column}", *rows)) + "\n")
    return path


def row(time: object, value: object, zone: str = "aws/a") -> str:
    return f"{time},{zone},vm,spot,{value}"


def refused(path: Path, time: LogTime = DAY) -> SpecError:
    with pytest.raises(SpecError) as found:
        read_log(path, "usd_per_hour", time, lambda value: "" if value > 0 else f"usd_per_hour is {value:g}")
    return found.value


def test_a_value_holds_until_the_next_whichever_way_its_time_is_written(tmp_path: Path) -> None:
    path = log(tmp_path, row("2024-08-01T23:00:00Z", 1), row(HOUR_S, 2), row("2024-08-02T05:00:00+02:00", 3))
    found = read_log(path, "usd_per_hour", LogTime(START, 4 * HOUR_S), lambda _: "")
    assert found == {A: StepLog((-HOUR_S, HOUR_S, 3 * HOUR_S), (1, 2, 3))}


def test_a_gap_is_told_with_its_ends_its_line_and_what_to_do(tmp_path: Path) -> None:
    error = refused(log(tmp_path, row(0, 1), row(5 * HOUR_S, 1), row(14 * HOUR_S, 1), row(19 * HOUR_S, 1)))
    (problem,) = error.problems
    assert problem.line == 4
    assert "no usd_per_hour of spot vm in aws/a between 2024-08-02T05:00+00:00 and 2024-08-02T14:00" in problem.message
    assert "Fill the gap, or set `hold_hours` of the log" in problem.message


def test_a_log_that_begins_late_or_ends_early_has_a_gap_too(tmp_path: Path) -> None:
    late, early = refused(log(tmp_path, row(HOUR_S, 1), row(7 * HOUR_S, 1))).problems
    assert "1.0 h after the scenario begins: add one for its start, or set a later `start`" in late.message
    assert "when the scenario ends" in early.message


def test_a_log_of_changes_has_no_gaps(tmp_path: Path) -> None:
    path = log(tmp_path, row(0, 1))
    assert read_log(path, "usd_per_hour", LogTime(START, 24 * HOUR_S), lambda _: "")[A].at(23 * HOUR_S) == 1


def test_silence_before_and_after_the_scenario_is_no_gap(tmp_path: Path) -> None:
    rows = (row(-100 * HOUR_S, 1), row(-HOUR_S, 2), row(4 * HOUR_S, 3), row(99 * HOUR_S, 4))
    assert (
        len(read_log(log(tmp_path, *rows), "usd_per_hour", LogTime(START, 9 * HOUR_S, DAY.hold_s), lambda _: "")) == 1
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (row(5, ""), "usd_per_hour is empty: fill the gap"),
        (row(5, "cheap"), "usd_per_hour is 'cheap', not a number"),
        (row(5, 0), "usd_per_hour is 0"),
        (row("noon", 1), "time 'noon' is neither seconds nor a moment"),
        (row(-5, 1), "spot vm in aws/a has a row of that time or a later one on line 2: sort them"),
        (row(5, 1, "us-east-1"), "must name its cloud, such as aws/us-east-1"),
        ("5,aws/a,vm,sport,1", "unknown market 'sport'; did you mean 'spot'?"),
    ],
)
def test_a_row_that_makes_no_sense_is_named_by_its_line(tmp_path: Path, wrong: str, said: str) -> None:
    (problem,) = refused(log(tmp_path, row(0, 1), wrong), LogTime(START, HOUR_S)).problems
    assert problem.line == 3
    assert said in problem.message


def test_a_file_of_other_columns_says_which_are_missing(tmp_path: Path) -> None:
    assert "has no column usd_per_hour" in str(refused(log(tmp_path, row(0, 1), column="price")))


def two_zones() -> Quotes:
    return Quotes(
        tuple(make.offer("L4:1/n10", f"aws/{z}", 1.0, None, market=Market.SPOT, instance_type="vm") for z in "ab"), {}
    )


def logged(prices: dict[Place, StepLog], stock: dict[Place, StepLog]) -> MarketLog:
    return market_log(two_zones(), prices, stock, known=True)


def test_the_log_of_a_region_gives_its_zones_one_price_and_one_stock_together() -> None:
    region = Place("aws/r", "L4:1", Market.SPOT)
    found = logged({region: StepLog((0.0,), (0.4,))}, {region: StepLog((0.0,), (3.0,))})
    assert [each.usd_per_hour.at(0) for each in found.offers] == [0.4, 0.4]
    (shared,) = found.shared
    assert (len(shared.members), shared.limit.at(0)) == (2, 3.0)


def test_a_zone_counts_before_its_region_and_what_no_log_names_stays() -> None:
    zone, region = Place("aws/a", "vm", Market.SPOT), Place("aws/r", "vm", Market.SPOT)
    found = logged({zone: StepLog((0.0,), (0.3,)), region: StepLog((0.0,), (0.4,))}, {zone: StepLog((0.0,), (2.0,))})
    assert [(each.usd_per_hour.at(0), each.nodes.at(0)) for each in found.offers] == [(0.3, 2.0), (0.4, inf)]
    assert "1 of 2 offers are not in the log of availability: theirs stay" in found.notes


def test_a_log_that_names_no_offer_of_the_fleet_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the price log names no offer of the fleet: it begins with spot vm in gcp/a"):
        logged({Place("gcp/a", "vm", Market.SPOT): StepLog((0.0,), (1.0,))}, {})
