"""Availability from a file: counts for offers, shared counts, wrong lines."""

from pathlib import Path

import pytest

from control.fleet_file.problem import SpecError
from control.offers.availability import Availability, read_availability, with_availability
from control.offers.quotes import Quotes
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import Market, Offer

HEADER = "zone,config,market,available\n"


def offer(zone: str, machine: str, config: str = "L4:1/n10", market: Market = Market.SPOT) -> Offer:
    return Offer("aws", "us-east-2", zone, machine, config, market, 1.0)


def market(*offers: Offer) -> Quotes:
    return Quotes(offers, {o.node_config: node_config_from_id(o.node_config) for o in offers})


def read(tmp_path: Path, text: str) -> tuple[Availability, ...]:
    path = tmp_path / "scarce.csv"
    path.write_text(text)
    return read_availability(path)


def test_one_offer_gets_the_count_itself() -> None:
    known = [Availability("aws/use2-az1", "L4:1/n10", Market.SPOT, 3)]
    quotes = with_availability(market(offer("use2-az1", "g6.xlarge"), offer("use2-az2", "g6.xlarge")), known)
    assert [o.available_count for o in quotes.offers] == [3, None]
    assert quotes.pools == ()


def test_several_machines_share_a_count_through_a_pool() -> None:
    known = [Availability("aws/use2-az1", "L4:1", Market.SPOT, 3)]
    first, second = offer("use2-az1", "g6.xlarge"), offer("use2-az1", "g6.8xlarge", "L4:1/n25")
    quotes = with_availability(market(first, second), known)
    assert [o.available_count for o in quotes.offers] == [3, 3]
    assert [(p.limit, p.members) for p in quotes.pools] == [(3, {first.key: 1, second.key: 1})]


def test_a_region_stands_for_all_its_zones_together() -> None:
    known = [Availability("aws/us-east-2", "L4:1/n10", Market.SPOT, 5)]
    quotes = with_availability(market(offer("use2-az1", "g6.xlarge"), offer("use2-az2", "g6.xlarge")), known)
    assert sum(quotes.pools[0].members.values()) == 2
    assert quotes.pools[0].limit == 5


def test_another_market_or_size_is_not_touched() -> None:
    known = [Availability("aws/use2-az1", "L4:1", Market.SPOT, 0)]
    others = [offer("use2-az1", "m", market=Market.ON_DEMAND), offer("use2-az1", "n", "L4:4/n25")]
    assert [o.available_count for o in with_availability(market(*others), known).offers] == [None, None]


def test_lines_that_match_nothing_are_counted() -> None:
    known = [Availability("gcp/us-central1", "L4:1", Market.SPOT, 1)] * 2
    assert with_availability(market(offer("use2-az1", "m")), known).notes == (
        "2 lines of availability match no offer here",
    )


def test_a_file_is_read_with_comments(tmp_path: Path) -> None:
    text = "# seed 7\n" + HEADER + "aws/us-east-2,L4:2,on-demand,6\n\n# more\naws/use2-az1, A10G:1/n10 ,spot,0\n"
    assert read(tmp_path, text) == (
        Availability("aws/us-east-2", "L4:2", Market.ON_DEMAND, 6),
        Availability("aws/use2-az1", "A10G:1/n10", Market.SPOT, 0),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("aws/z,L4:1,spot", "scarce.csv:2: has 3 cells, must have 4"),
        ("aws/z,L4:1,spot,-1", "scarce.csv:2: available must be a whole number"),
        ("aws/z,L4:1,spot,nan", "scarce.csv:2: available must be a whole number"),
        ("aws/z,L44:1,spot,1", "scarce.csv:2: unknown GPU 'L44'; did you mean 'L4"),
        ("aws/z,L4,spot,1", "scarce.csv:2: 'L4/n0' is no node configuration"),
        ("aws/z,L4:1,spott,1", "unknown market 'spott'; did you mean 'spot'?"),
        ("us-east-2,L4:1,spot,1", "zone 'us-east-2' must name its cloud"),
        ("aws/z,L4:1,spot,1\naws/z,L4:1,spot,2", "scarce.csv:3: L4:1 in aws/z occurs twice; keep one"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        read(tmp_path, HEADER + line + "\n")
    assert message in str(error.value)


def test_all_wrong_lines_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        read(tmp_path, HEADER + "aws/z,L4:1,spot,x\naws/z,L4:1,sport,1\n")
    assert len(error.value.problems) == 2


@pytest.mark.parametrize("text", ["", "zone,config\n"])
def test_a_file_without_the_header_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SpecError, match="the header must be zone,config,market,available"):
        read(tmp_path, text)
