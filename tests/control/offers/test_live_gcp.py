"""GCP's offers through the real clients, from a server that speaks its protocols."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from control.offers.live.gcp import GcpOffers
from control.offers.live.readers import cloud_readers
from control.offers.live.source import LiveAnswer, NoAccessError, NoAnswerError
from control.offers.selection import Selection
from templates_lib.values.offer import Market, Offer
from tests.control.market.markets import NOON
from tests.control.offers.gcp_endpoint import GcpEndpoint, gcp, machine, sku

BOTH = (Market.ON_DEMAND, Market.SPOT)
ALL = Selection("gcp", markets=BOTH)
US, EU = "us-central1-a", "europe-west4-b"

SKUS = [
    sku("G2 Instance Core running in Americas", 0.02498844),
    sku("G2 Instance Ram running in Americas", 0.0029271, group="RAM", unit="GiBy.h"),
    sku("Nvidia L4 GPU running in Americas", 0.56004, group="GPU"),
    sku("Spot Preemptible G2 Instance Core running in Americas", 0.01, spot=True),
    sku("Spot Preemptible G2 Instance Ram running in Americas", 0.001, spot=True, group="RAM", unit="GiBy.h"),
    sku("Nvidia L4 GPU attached to Spot Preemptible VMs running in Americas", 0.2242, spot=True, group="GPU"),
    # What must not be taken for the plain price of one of these.
    sku("Commitment v1: G2 Core in Americas for 1 Year", 0.001, usage="Commit1Yr"),
    sku("Reserved Nvidia L4 GPU in Americas", 0.0001, group="GPU"),
    sku("Nvidia L4 GPU attached to DWS Defined Duration VMs running in Americas", 9.0, group="GPU"),
    sku("G2 Instance Core running in Americas Sole Tenancy", 9.0),
    sku("G2 Custom Instance Core running in Americas", 9.0),
    sku("Network Internet Egress", 9.0, family="Network"),
    # A machine with GPUs that are called alike, and local disks.
    sku("A2 Instance Core running in Americas", 0.031611),
    sku("A2 Instance Ram running in Americas", 0.004237, group="RAM", unit="GiBy.h"),
    sku("Nvidia Tesla A100 GPU running in Americas", 2.933908, group="GPU"),
    sku("Nvidia Tesla A100 80GB GPU running in Americas", 3.92808, group="GPU"),
    sku("SSD backed Local Storage", 0.08, group="SSD", unit="GiBy.mo", family="Storage"),
    sku("A3Plus Instance Core running in Americas", 0.03),
    sku("A3 Instance Core running in Americas", 0.02),
    sku("A3Plus Instance Ram running in Americas", 0.002, group="RAM", unit="GiBy.h"),
    sku("Nvidia H100 80GB Plus GPU running in Americas", 10.0, group="GPU"),
    sku("Nvidia H100 80GB GPU running in Americas", 9.0, group="GPU"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[GcpEndpoint]:
    with gcp() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def known(server: GcpEndpoint, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return server.environment(tmp_path_factory.mktemp("gcp"))


@pytest.fixture
def endpoint(
    server: GcpEndpoint, known: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> GcpEndpoint:
    monkeypatch.delenv("GCLOUD_PROJECT", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    server.own.asked.clear()
    server.expired, server.unreachable, server.refuse, server.used = False, [], {}, {}
    server.skus = SKUS
    server.machines = {
        US: [
            machine("g2-standard-4", 4, 16, "nvidia-l4", 1),
            machine("a2-highgpu-1g", 12, 85, "nvidia-tesla-a100", 1),
            machine("a2-ultragpu-1g", 12, 170, "nvidia-a100-80gb", 1, disks=1),
            machine("a3-megagpu-8g", 208, 1872, "nvidia-h100-mega-80gb", 8, disks=16),
            machine("n1-standard-4", 4, 15, "", 0),
        ],
        EU: [machine("g2-standard-4", 4, 16, "nvidia-l4", 1)],
        "us-central1-b": [machine("g2-standard-4", 4, 16, "nvidia-l4", 2)],
        "us-central1-c": [],
    }
    server.quotas = {
        "us-central1": {"NVIDIA_L4_GPUS": 8, "PREEMPTIBLE_NVIDIA_L4_GPUS": 4, "CPUS": 72, "NVIDIA_A100_GPUS": 0},
        "europe-west4": {"NVIDIA_L4_GPUS": 1, "PREEMPTIBLE_NVIDIA_L4_GPUS": 0},
    }
    return server


def fetch(selection: Selection = ALL) -> LiveAnswer:
    return GcpOffers([selection], os.environ).fetch(NOON)


def prices(answer: LiveAnswer) -> dict[str, float]:
    return {o.key: o.usd_per_hour for o in answer.offers}


@pytest.mark.usefixtures("endpoint")
def test_a_machine_costs_its_cores_memory_gpus_and_disks() -> None:
    answer = fetch()
    assert prices(answer) == pytest.approx(
        {
            f"gcp/{US}/g2-standard-4/on-demand": 4 * 0.02498844 + 16 * 0.0029271 + 0.56004,
            f"gcp/{US}/g2-standard-4/spot": 4 * 0.01 + 16 * 0.001 + 0.2242,
            f"gcp/{US}/a2-highgpu-1g/on-demand": 12 * 0.031611 + 85 * 0.004237 + 2.933908,
            # $5.0688, as the public list says.
            f"gcp/{US}/a2-ultragpu-1g/on-demand": 12 * 0.031611 + 170 * 0.004237 + 3.92808 + 375 * 0.08 / 730,
            f"gcp/{US}/a3-megagpu-8g/on-demand": 208 * 0.03 + 1872 * 0.002 + 80 + 16 * 375 * 0.08 / 730,
        },
        abs=1e-6,
    )
    assert {o.node_config for o in answer.offers} == answer.configs.keys()
    l4 = next(o for o in answer.offers if o.key == f"gcp/{US}/g2-standard-4/spot")
    assert (l4.region, l4.source, l4.observed_at) == ("us-central1", "gcp-api", NOON.isoformat())
    assert l4.interruptions_per_hour > 0
    (note,) = answer.notes
    assert note.startswith("gcp: its price list has no price for a2-highgpu-1g (spot), a2-ultragpu-1g (spot)")
    assert "g2-standard-4 (on-demand)" in note  # in Europe


@pytest.mark.usefixtures("endpoint")
def test_a_selection_narrows_what_is_offered() -> None:
    assert list(prices(fetch(Selection("gcp", ("us-central1",), ("L4",), (1,))))) == [
        f"gcp/{US}/g2-standard-4/on-demand"
    ]


def test_quotas_become_pools_and_spot_without_one_counts_against_the_other(endpoint: GcpEndpoint) -> None:
    endpoint.skus = [s | {"serviceRegions": ["us-central1", "europe-west4"]} for s in SKUS]
    pools = {pool.id: (pool.limit, pool.unit, pool.members) for pool in fetch().pools}
    assert pools == {
        "gcp/us-central1/NVIDIA_L4_GPUS/on-demand": (8, "gpus", {f"gcp/{US}/g2-standard-4/on-demand": 1.0}),
        "gcp/us-central1/NVIDIA_L4_GPUS/spot": (4, "gpus", {f"gcp/{US}/g2-standard-4/spot": 1.0}),
        "gcp/us-central1/NVIDIA_A100_GPUS/on-demand": (0, "gpus", {f"gcp/{US}/a2-highgpu-1g/on-demand": 1.0}),
        "gcp/europe-west4/NVIDIA_L4_GPUS/on-demand": (
            1, "gpus", {f"gcp/{EU}/g2-standard-4/on-demand": 1.0, f"gcp/{EU}/g2-standard-4/spot": 1.0},
        ),
    }  # fmt: skip


def test_throttling_is_waited_out(endpoint: GcpEndpoint) -> None:
    endpoint.refuse = {"machineTypes": [429], "skus": [503], "regions": [429]}
    assert len(fetch().offers) == 5


def test_a_zone_that_does_not_answer_is_named(endpoint: GcpEndpoint) -> None:
    endpoint.unreachable = ["us-central1-f"]
    answer = fetch()
    assert answer.partly
    assert answer.notes[0] == "gcp: does not answer for us-central1-f now"


def test_quotas_that_may_not_be_read_cost_the_quotas_only(endpoint: GcpEndpoint) -> None:
    endpoint.refuse = {"regions": [403]}
    answer = fetch()
    assert answer.partly
    assert answer.pools == ()
    assert len(answer.offers) == 5
    assert "gcp: GCP does not let us ask for quotas: 403" in answer.notes[-1]


def test_expired_credentials_leave_the_cloud_out(endpoint: GcpEndpoint) -> None:
    endpoint.expired = True
    with pytest.raises(NoAccessError, match=r"GCP credentials cannot be used, renew them: .*expired or revoked"):
        fetch()


@pytest.mark.usefixtures("endpoint")
def test_missing_credentials_leave_the_cloud_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    with pytest.raises(NoAccessError, match="no GCP credentials were found: run `gcloud auth"):
        fetch()


def test_a_refused_price_list_is_no_access(endpoint: GcpEndpoint) -> None:
    endpoint.refuse = {"skus": [403]}
    with pytest.raises(NoAccessError, match="GCP does not let us ask for prices: 403"):
        fetch()


def test_nobody_there_is_no_answer(endpoint: GcpEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint.refuse = {"skus": [404]}
    with pytest.raises(NoAnswerError, match="prices: 404"):
        fetch()
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "http://127.0.0.1:9")
    monkeypatch.setattr("control.offers.live.gcp_access._RETRY_S", 0.1)
    with pytest.raises(NoAnswerError, match="machine types"):
        fetch()


def test_quotas_of_regions_and_project_are_read_with_what_is_in_use(endpoint: GcpEndpoint) -> None:
    endpoint.quotas = {
        "us-central1": {"NVIDIA_L4_GPUS": 4.0, "PREEMPTIBLE_NVIDIA_L4_GPUS": 2.0, "NVIDIA_T4_GPUS": 9.0},
        "all": {"GPUS_ALL_REGIONS": 3.0, "CPUS_ALL_REGIONS": 32.0, "SNAPSHOTS": 7.0},
    }
    endpoint.used = {"NVIDIA_L4_GPUS": 1.0, "CPUS_ALL_REGIONS": 12.0}
    l4 = [each for each in GcpOffers([ALL], os.environ).fetch(NOON).offers if each.instance_type == "g2-standard-4"]
    assert {each.market for each in l4} == set(BOTH)
    read = cloud_readers(os.environ)["gcp"].quotas
    answer = read(l4)
    assert answer.notes == ()
    nodes = {each.key: 3 for each in l4}
    assert {each.pool.source: (each.pool.taken(nodes), each.pool.limit, each.used) for each in answer.quotas} == {
        "quota NVIDIA_L4_GPUS": (3.0, 4.0, 1.0),
        "quota PREEMPTIBLE_NVIDIA_L4_GPUS": (3.0, 2.0, 0.0),
        "quota GPUS_ALL_REGIONS": (6.0, 3.0, 0.0),
        "quota CPUS_ALL_REGIONS": (24.0, 32.0, 12.0),
    }
    endpoint.refuse = {"medley-test": [403]}
    without = read(l4)
    assert len(without.quotas) == 2, "regions tell all the same"
    assert "quotas of the project" in without.notes[0]
    endpoint.refuse = {"regions": [403]}
    with pytest.raises(NoAccessError, match="quotas of regions"):
        read(l4)


def test_machines_are_looked_for_where_they_are_wanted(endpoint: GcpEndpoint) -> None:
    sold = cloud_readers(os.environ)["gcp"].sold
    assert sold is not None

    def offer(zone: str, name: str = "g2-standard-4") -> Offer:
        return Offer("gcp", "us-central1", zone, name, "L4:1/n10", Market.SPOT, 1.0)

    there, anywhere = offer(US), offer("us-central1")
    assert sold([there, anywhere, offer("us-central1-f"), offer(US, "g2-standard-48")]) == {there.key, anywhere.key}
    assert sold([offer(US, "g9-standard-4")]) == frozenset()
    endpoint.unreachable = [US]
    with pytest.raises(NoAnswerError, match=US):
        sold([there])
    assert sold([anywhere]) == {anywhere.key}
