"""AWS's offers through the real boto3, from servers that speak its protocols."""

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from control.offers.live.aws import AwsOffers
from control.offers.live.readers import cloud_readers
from control.offers.live.source import NoAccessError, NoAnswerError
from control.offers.selection import Selection
from templates_lib.values.hardware import instance_type
from templates_lib.values.offer import Market, Offer
from tests.control.market.markets import NOON
from tests.control.offers.aws_endpoint import AwsEndpoint, aws, product

BOTH = (Market.ON_DEMAND, Market.SPOT)
L4 = Selection("aws", ("us-east-2",), ("L4",), (1,), BOTH)
SINCE = "2026-11-21T11:40:00.000Z"


@pytest.fixture(scope="module")
def server() -> Iterator[AwsEndpoint]:
    with aws() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(server: AwsEndpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AwsEndpoint:
    """As it is asked in these tests: two machines on demand, one on the spot market of two zones."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    server.throttle, server.deny = 0, ""
    server.own.asked.clear()
    server.products = [
        product("g6.xlarge", 0.8048),
        product("g6.xlarge", 0.9048, tenancy="Dedicated"),
        product("g6.xlarge", 0.9888, operatingSystem="Windows"),
        product("m6i.large", 0.096),
        product("g6.2xlarge", 0.9776),
        product("g6.2xlarge", 0.1, region="us-east-1"),
    ]
    server.spot = {
        ("g6.xlarge", "us-east-2a"): [("0.2321", SINCE), ("0.3000", "2026-11-20T00:00:00.000Z")],
        ("g6.xlarge", "us-east-2b"): [("0.2148", SINCE)],
        ("p5.48xlarge", "us-east-2a"): [("13.46", SINCE)],
    }
    server.quotas = {
        "us-east-2": {
            "Running On-Demand Standard instances": 5.0,
            "Running On-Demand G and VT instances": 64.0,
            "All G and VT Spot Instance Requests": 8.0,
            "Running On-Demand P instances": 0.0,
        }
    }
    return server


@pytest.mark.usefixtures("endpoint")
def test_prices_zones_and_quotas_become_offers_and_pools() -> None:
    answer = AwsOffers([L4]).fetch(NOON)
    prices = {o.key: o.usd_per_hour for o in answer.offers}
    on_demand = {key for key in prices if key.endswith("on-demand")}
    assert on_demand == {
        f"aws/use2-az{n}/{machine}/on-demand" for n in (1, 2, 3) for machine in ("g6.xlarge", "g6.2xlarge")
    }
    assert prices["aws/use2-az1/g6.xlarge/on-demand"] == 0.8048
    assert prices["aws/use2-az3/g6.2xlarge/on-demand"] == 0.9776
    assert {key: prices[key] for key in prices.keys() - on_demand} == {
        "aws/use2-az1/g6.xlarge/spot": 0.2321,
        "aws/use2-az2/g6.xlarge/spot": 0.2148,
    }
    spot = next(o for o in answer.offers if o.key == "aws/use2-az1/g6.xlarge/spot")
    assert (spot.region, spot.source, spot.observed_at) == ("us-east-2", "aws-api", "2026-11-21T11:40:00+00:00")
    assert spot.interruptions_per_hour > 0
    assert spot.node_config in answer.configs
    limits = {pool.id: (pool.limit, pool.unit) for pool in answer.pools}
    assert limits == {"aws/us-east-2/G-VT/on-demand": (64.0, "vcpus"), "aws/us-east-2/G-VT/spot": (8.0, "vcpus")}
    weights = {key: weight for pool in answer.pools for key, weight in pool.members.items()}
    assert weights.keys() == prices.keys()
    assert weights["aws/use2-az1/g6.2xlarge/on-demand"] == instance_type("aws", "g6.2xlarge").vcpus
    assert not answer.partly


def test_a_quota_of_zero_is_a_pool_of_nothing(endpoint: AwsEndpoint) -> None:
    endpoint.products.append(product("p5.48xlarge", 55.04))
    answer = AwsOffers([Selection("aws", ("us-east-2",), ("H100",), None, BOTH)]).fetch(NOON)
    pools = {pool.id: (pool.limit, sorted(pool.members)) for pool in answer.pools}
    keys = sorted(o.key for o in answer.offers if o.market is Market.ON_DEMAND)
    assert keys
    assert pools == {"aws/us-east-2/P/on-demand": (0.0, keys)}


def test_several_regions_are_asked_and_one_that_is_not_enabled_is_named(endpoint: AwsEndpoint) -> None:
    endpoint.products.append(product("g6.xlarge", 0.9, region="us-west-2"))
    chosen = Selection("aws", ("us-east-2", "us-west-2", "ap-nowhere-9"), ("L4",), (1,), BOTH)
    answer = AwsOffers([chosen]).fetch(NOON)
    assert {o.region for o in answer.offers} == {"us-east-2", "us-west-2"}
    assert answer.notes == ("aws: region ap-nowhere-9 is not enabled for this account",)


def test_throttling_is_waited_out(endpoint: AwsEndpoint) -> None:
    endpoint.throttle = 1
    answer = AwsOffers([L4]).fetch(NOON)
    assert len(answer.offers) == 8
    assert not answer.partly


@pytest.mark.parametrize(("service", "what"), [("pricing", "on-demand prices"), ("servicequotas", "quotas")])
def test_a_permission_that_lacks_costs_that_part_only(endpoint: AwsEndpoint, service: str, what: str) -> None:
    endpoint.deny = service
    answer = AwsOffers([L4]).fetch(NOON)
    assert answer.partly
    assert answer.notes[0].startswith(f"aws: AWS does not let us ask for {what} of us-east-2: AccessDeniedException")
    markets = {o.market for o in answer.offers}
    assert markets == ({Market.SPOT} if service == "pricing" else set(BOTH))


def test_without_credentials_the_cloud_is_left_out(endpoint: AwsEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(NoAccessError, match="no AWS credentials were found"):
        AwsOffers([L4]).fetch(NOON)


def test_nobody_there_is_no_answer(endpoint: AwsEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(NoAnswerError, match="Could not connect"):
        AwsOffers([L4]).fetch(NOON)


@pytest.mark.parametrize(
    "text", ["{", '{"product": {}}', '{"product": {"attributes": {"instanceType": "g6.xlarge"}}, "terms": 7}']
)
def test_a_price_list_of_another_form_is_no_price(endpoint: AwsEndpoint, text: str) -> None:
    endpoint.products.insert(0, text)
    answer = AwsOffers([L4]).fetch(NOON)
    assert answer.partly
    assert {o.market for o in answer.offers} == {Market.SPOT}


@pytest.fixture
def rented(endpoint: AwsEndpoint) -> Iterator[None]:
    """Others of the account run three machines in the region."""
    ec2 = boto3.client("ec2", region_name="us-east-2")
    for machine, spot in (("g6.2xlarge", False), ("g5.xlarge", False), ("m5.large", False), ("g6.xlarge", True)):
        market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
        ec2.run_instances(ImageId="ami-12c6146b", InstanceType=machine, MinCount=1, MaxCount=1, **market)
    yield
    every = [one["InstanceId"] for each in ec2.describe_instances()["Reservations"] for one in each["Instances"]]
    ec2.terminate_instances(InstanceIds=every)


@pytest.mark.usefixtures("rented")
def test_quotas_are_read_with_what_the_account_has_in_use(endpoint: AwsEndpoint) -> None:
    config = instance_type("aws", "g6.xlarge").config_id
    offers = [Offer("aws", "us-east-2", "use2-az1", "g6.xlarge", config, market, 1.0) for market in BOTH]
    read = cloud_readers(os.environ)["aws"].quotas
    answer = read(offers)
    assert answer.notes == ()
    found = {each.pool.id: (each.pool.limit, each.used) for each in answer.quotas}
    assert found == {"aws/us-east-2/G-VT/on-demand": (64.0, 12.0), "aws/us-east-2/G-VT/spot": (8.0, 4.0)}
    assert all("us-east-2" in each.ask_at and "L-" in each.ask_at for each in answer.quotas)
    endpoint.deny = "servicequotas"
    with pytest.raises(NoAccessError, match="quotas of us-east-2"):
        read(offers)


@pytest.mark.usefixtures("endpoint")
def test_machines_and_images_are_looked_for_where_they_are_wanted() -> None:
    reader = cloud_readers(os.environ)["aws"]
    assert reader.sold is not None
    assert reader.image_gib is not None
    config = instance_type("aws", "g6.xlarge").config_id

    def offer(zone: str, name: str = "g6.xlarge") -> Offer:
        return Offer("aws", "us-east-2", zone, name, config, Market.SPOT, 1.0)

    there, by_name, anywhere = offer("use2-az1"), offer("us-east-2b"), offer("us-east-2")
    nowhere, not_sold = offer("use2-az9"), offer("use2-az1", "g9.xlarge")
    sold = reader.sold([there, by_name, anywhere, nowhere, not_sold])
    assert sold == {there.key, by_name.key, anywhere.key}
    (known, *_) = boto3.client("ec2", region_name="us-east-2").describe_images()["Images"]
    size = reader.image_gib(known["ImageId"], "us-east-2")
    assert size == max(each["Ebs"]["VolumeSize"] for each in known["BlockDeviceMappings"])
    assert reader.image_gib("ami-0123456789abcdef0", "us-east-2") is None
