"""The offers file: what it says, and how it is refused."""

from pathlib import Path

import pytest

from control.fleet_file.problem import SpecError
from control.offers.file import FileOffers
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import Market

HEAD = "apiVersion: medley/v1\nkind: Offers\n"
OFFER = (
    HEAD
    + """offers:
  - cloud: onprem
    region: hall-a
    instance_type: dgx
    node_config: H100:8/n200
    market: owned
    usd_per_hour: 0
"""
)
FULL = """apiVersion: medley/v1
kind: Offers
observed_at: 2026-11-01
offers:
  - cloud: onprem
    region: hall-a
    instance_type: dgx
    node_config: H100:8/n200
    market: owned
    usd_per_hour: 0
    available: 2
    host_memory_gib: 1024
  - cloud: aws
    region: us-east-2
    zone: use2-az1
    instance_type: g6e.xlarge
    node_config: L40S:1/n10
    market: spot
    usd_per_hour: 0.4
    interruptions_per_hour: 0.001
pools:
  - {id: power, limit: 1, unit: nodes, members: {onprem/hall-a/dgx/owned: 1}}
traffic:
  - {source: onprem/hall-a, target: aws/use2-az1, usd_per_gb: 0.05}
availability:
  - {zone: aws/us-east-2, config: "L40S:1", market: spot, available: 12}
"""


def write(tmp_path: Path, text: str) -> FileOffers:
    path = tmp_path / "offers.yaml"
    path.write_text(text)
    return FileOffers(path)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(SpecError) as error:
        write(tmp_path, text).fetch()
    return str(error.value).replace(str(tmp_path / "offers.yaml"), "offers.yaml")


def test_a_file_brings_offers_pools_traffic_and_availability(tmp_path: Path) -> None:
    market = write(tmp_path, FULL).fetch()
    owned, spot = market.offers
    assert (owned.key, owned.usd_per_hour, owned.available_count) == ("onprem/hall-a/dgx/owned", 0, 2)
    assert (spot.zone_id, spot.market, spot.available_count) == ("aws/use2-az1", Market.SPOT, 12)
    assert spot.interruptions_per_hour == 0.001
    assert {o.observed_at for o in market.offers} == {"2026-11-01"}
    assert {o.source for o in market.offers} == {"offers.yaml"}
    assert market.configs["H100:8/n200"].host_memory_gib == 1024
    assert market.configs["L40S:1/n10"] == node_config_from_id("L40S:1/n10")
    assert [(p.id, p.limit, p.members) for p in market.pools] == [("power", 1, {"onprem/hall-a/dgx/owned": 1})]
    assert market.traffic[0].usd_per_gb == 0.05


def test_a_zone_is_the_region_unless_given(tmp_path: Path) -> None:
    assert write(tmp_path, OFFER).fetch().offers[0].zone == "hall-a"


def test_a_file_without_offers_is_an_empty_market(tmp_path: Path) -> None:
    assert write(tmp_path, HEAD).fetch().offers == ()


def test_two_machines_of_a_configuration_share_the_least_shape(tmp_path: Path) -> None:
    second = OFFER.partition("offers:\n")[2].replace("dgx", "hgx") + "    host_memory_gib: 900\n"
    assert write(tmp_path, OFFER + second).fetch().configs["H100:8/n200"].host_memory_gib == 900


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("usd_per_hour: 0\n", "usd_per_hour: -1\n", "offers.yaml:9: offers[0].usd_per_hour: must be greater than or"),
        ("usd_per_hour: 0\n", "usd_per_hour: .nan\n", "offers.yaml:9: offers[0].usd_per_hour: must be a finite number"),
        ("usd_per_hour: 0\n", "usd_per_hour: .inf\n", "offers.yaml:9: offers[0].usd_per_hour"),
        ("usd_per_hour: 0\n", "usd_per_hour: cheap\n", "offers.yaml:9: offers[0].usd_per_hour: must be a valid number"),
        (
            "usd_per_hour",
            "usd_per_hours",
            "offers.yaml:9: unknown key 'offers[0].usd_per_hours'; did you mean 'usd_per",
        ),
        ("    market: owned\n", "", "offers[0].market is missing"),
        ("owned", "on_demand", "offers.yaml:8: offers[0].market: unknown value 'on_demand'; did you mean 'on-demand'?"),
        ("owned", "spot", "a price of 0 is for market: owned, not spot"),
        ("H100:8/n200", "H10:8/n200", "offers.yaml:7: offers[0].node_config: unknown GPU 'H10'; did you mean 'H100'?"),
        ("H100:8/n200", "H100:8", "offers.yaml:7: offers[0].node_config: 'H100:8' is no node configuration"),
        ("usd_per_hour: 0\n", "usd_per_hour: 0\n    network_gbps: 40\n", "network_gbps 40 is class n25"),
        ("kind: Offers", "kind: Offer", "offers.yaml:2: kind: unknown value 'Offer'; did you mean 'Offers'?"),
        ("offers:", "ofers:", "offers.yaml:3: unknown key 'ofers'; did you mean 'offers'?"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in refusal(tmp_path, OFFER.replace(old, new, 1))


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    text = OFFER.replace("usd_per_hour: 0", "usd_per_hour: -1").replace("cloud:", "clowd:")
    message = refusal(tmp_path, text)
    assert "greater than or equal" in message
    assert "did you mean 'cloud'?" in message


def test_two_prices_for_one_offer_are_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, OFFER + OFFER.partition("offers:\n")[2])
    assert "offers.yaml:10: onprem/hall-a/dgx/owned occurs twice in offers; keep one" in message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{zone: use2-az1, config: "L4:1", market: spot, available: 1}', "must name its cloud, such as aws/use2-az1"),
        ('{zone: aws/a, config: "L5:1", market: spot, available: 1}', "unknown GPU 'L5'"),
        ('{zone: aws/a, config: "L4:1", market: sport, available: 1}', "unknown market 'sport'; did you mean 'spot'?"),
        ('{zone: aws/a, config: "L4:1", market: spot, available: -1}', "availability[0].available"),
    ],
)
def test_wrong_availability_is_named(tmp_path: Path, line: str, message: str) -> None:
    text = refusal(tmp_path, HEAD + "availability:\n  - " + line + "\n")
    assert message in text
    assert "offers.yaml:4: " in text


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        FileOffers(tmp_path / "none.yaml").fetch()


@pytest.mark.parametrize("text", ["", "- a\n", "a: [1\n"])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    assert "offers.yaml" in refusal(tmp_path, text)
