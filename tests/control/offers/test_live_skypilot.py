"""Offers from SkyPilot's catalogue files."""

import os
from pathlib import Path

import pytest

from control.offers.live.skypilot import SkyPilotOffers
from control.offers.live.source import NoAnswerError
from control.offers.selection import Selection
from templates_lib.values.offer import Market
from tests.control.market.markets import NOON

BOTH = (Market.ON_DEMAND, Market.SPOT)
HEADER = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone"
AWS = f"""{HEADER}
g6.xlarge,L4,1.0,4.0,16.0,"{{'Gpus': []}}",0.8048,0.2321,us-east-2,use2-az1
g6.xlarge,L4,1.0,4.0,16.0,,0.8048,,us-east-2,use2-az2
m6i.large,,,2.0,8.0,,0.096,0.04,us-east-2,use2-az1
g6.xlarge,L4,1.0,4.0,16.0,,broken,0.3,us-west-2,usw2-az1
"""
GCP = f"""{HEADER}
,L4,1.0,,,,0.56004,0.2242,us-central1,us-central1-a
,L4,2.0,,,,1.12008,0.4484,us-central1,us-central1-a
,H100,8.0,,,,80.0,20.0,us-central1,us-central1-a
,H100-MEGA,8.0,,,,82.0,21.0,us-central1,us-central1-a
g2-standard-4,,,4.0,16.0,,0.14678,0.0588,us-central1,us-central1-a
g2-standard-24,,,24.0,96.0,,0.88073,,us-central1,us-central1-a
g2-standard-48,,,48.0,192.0,,1.76,0.7,us-central1,us-central1-a
a3-megagpu-8g,,,208.0,1872.0,,11.0,3.0,us-central1,us-central1-a
"""


def write(home: Path, cloud: str, text: str, version: str = "v8") -> Path:
    file = home / version / cloud / "vms.csv"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    os.utime(file, (NOON.timestamp(), NOON.timestamp()))
    return file


def prices(home: Path, cloud: str, *, regions: tuple[str, ...] | None = None) -> dict[str, float]:
    answer = SkyPilotOffers([Selection(cloud, regions, None, None, BOTH)], cloud, home).fetch(NOON)
    assert {o.node_config for o in answer.offers} <= answer.configs.keys()
    assert {o.observed_at for o in answer.offers} <= {"2026-11-21T12:00:00+00:00"}
    return {o.key: o.usd_per_hour for o in answer.offers}


def test_lines_with_known_machines_and_prices_are_offers(tmp_path: Path) -> None:
    write(tmp_path, "aws", AWS.replace("0.8048", "9"), "v7")
    write(tmp_path, "aws", AWS)
    assert prices(tmp_path, "aws") == {
        "aws/use2-az1/g6.xlarge/on-demand": 0.8048,
        "aws/use2-az1/g6.xlarge/spot": 0.2321,
        "aws/use2-az2/g6.xlarge/on-demand": 0.8048,
        "aws/usw2-az1/g6.xlarge/spot": 0.3,
    }
    assert set(prices(tmp_path, "aws", regions=("us-west-2",))) == {"aws/usw2-az1/g6.xlarge/spot"}


def test_gcps_machines_cost_their_host_and_their_gpus(tmp_path: Path) -> None:
    write(tmp_path, "gcp", GCP)
    assert prices(tmp_path, "gcp") == {
        "gcp/us-central1-a/g2-standard-4/on-demand": 0.70682,
        "gcp/us-central1-a/g2-standard-4/spot": 0.283,
        "gcp/us-central1-a/g2-standard-24/on-demand": 2.00081,
        "gcp/us-central1-a/a3-megagpu-8g/on-demand": 93.0,
        "gcp/us-central1-a/a3-megagpu-8g/spot": 24.0,
    }


def test_what_is_no_catalogue_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoAnswerError, match="SkyPilot keeps no prices of aws below"):
        prices(tmp_path, "aws")
    write(tmp_path, "aws", "a,b\n1,2\n")
    with pytest.raises(NoAnswerError, match="no column AcceleratorCount, AcceleratorName"):
        prices(tmp_path, "aws")
    write(tmp_path, "gcp", GCP).write_bytes(b"\xff\xfe")
    with pytest.raises(NoAnswerError, match="cannot be read"):
        prices(tmp_path, "gcp")
