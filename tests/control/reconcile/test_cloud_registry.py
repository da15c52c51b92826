"""A cloud that Medley has never heard of, added through the registries alone."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from control.cloud.node import NodeRequest
from control.db.database import Database
from control.market.sources import LIVE_SOURCES, sources_of
from control.offers.live.source import LiveAnswer
from control.offers.pools import QuotaLimit, quota_pools
from control.offers.prices import regions_by_cloud
from control.reconcile.adapters import ADAPTERS, makers
from control.reconcile.clouds import Clouds, UnknownCloudError
from control.reconcile.daemon_home import DaemonHome
from control.reconcile.node_starts import engines_at
from templates_lib.values.clouds import CLOUDS, LOCAL, OWNED, CloudKind
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import Market, Offer
from tests.control.cloud.fake_cloud import FakeCloud

CONFIG = "L4:1/n10"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
OFFER = Offer("toy", "north", "north-1", "toy-box", CONFIG, Market.ON_DEMAND, 0.5, observed_at=NOW.isoformat())
REQUEST = NodeRequest("n-1", "north", "north-1", "toy-box", Market.ON_DEMAND, {"fleet": "chat"}, ("sleep", "1"))


class ToyPrices:
    cloud, name = "toy", "toy-api"

    def fetch(self, now: datetime) -> LiveAnswer:  # noqa: ARG002
        return LiveAnswer((OFFER,), {CONFIG: node_config_from_id(CONFIG)})


@pytest.fixture
def made() -> dict[str, FakeCloud]:
    return {}


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, made: dict[str, FakeCloud]) -> None:
    monkeypatch.setitem(CLOUDS, "toy", CloudKind("toy-adapter", is_stock=True))
    monkeypatch.setitem(
        ADAPTERS, "toy-adapter", lambda _parts, cloud: made.setdefault(cloud, FakeCloud(cloud, {"toy-box": 1}))
    )
    monkeypatch.setitem(LIVE_SOURCES, "toy", lambda _selections, _environment: ToyPrices())


@pytest.fixture
def clouds(toy: None, database: Database, tmp_path: Path) -> Iterator[Clouds]:
    with makers(database, DaemonHome.below(tmp_path), {}) as by_cloud:
        yield Clouds(by_cloud)


def test_its_nodes_are_rented_listed_and_ended(clouds: Clouds, made: Mapping[str, FakeCloud]) -> None:
    assert not made  # no adapter is made before it is needed
    toy = clouds.need("toy")
    assert toy.create(REQUEST, NOW).name == "n-1"
    assert [node.name for node in made["toy"].list({"fleet": "chat"}, NOW)] == ["n-1"]
    toy.terminate("n-1", NOW)
    assert not list(toy.list({"fleet": "chat"}, NOW))


def test_its_own_interface_is_asked_for_offers(toy: None) -> None:
    (source,) = sources_of(["toy"], {})
    assert source.fetch(NOW).offers == (OFFER,)


def test_its_nodes_run_what_rented_nodes_run(toy: None) -> None:
    assert engines_at("toy") == engines_at("aws")


def test_a_cloud_that_is_not_registered_or_rents_nothing_has_no_adapter(clouds: Clouds) -> None:
    for name in ("lambda", "nowhere"):
        with pytest.raises(UnknownCloudError):
            clouds.need(name)


def test_specs_name_the_clouds_whose_prices_ship_and_ones_own_machines() -> None:
    assert {name for name, kind in CLOUDS.items() if kind.has_prices} == {*regions_by_cloud(), LOCAL, OWNED}


def test_images_are_chosen_for_clouds_of_skypilot_only(toy: None, database: Database, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'toy'"), makers(database, DaemonHome.below(tmp_path), {"toy": "image"}):
        pass


@pytest.mark.parametrize(("cloud", "unit", "weight"), [("aws", "vcpus", 4), ("gcp", "gpus", 1)])
def test_quotas_count_what_the_registry_says(cloud: str, unit: str, weight: int) -> None:
    machine, family = {"aws": ("g6.xlarge", "G-VT"), "gcp": ("g2-standard-4", "NVIDIA_L4_GPUS")}[cloud]
    offer = Offer(cloud, "r", "r-1", machine, CONFIG, Market.ON_DEMAND, 0.5)
    (pool,) = quota_pools([offer], {CONFIG: node_config_from_id(CONFIG)}, [QuotaLimit(cloud, "r", family, 8)])
    assert (pool.unit, pool.members[offer.key]) == (unit, weight)
