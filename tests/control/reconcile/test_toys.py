"""A cloud and an engine that Medley has never heard of, added through the registries alone: a spec names them, a plan
uses them, and a node is rented."""

from pathlib import Path

import pytest

from control.db.database import Database
from control.fleet_file.json_schema import json_schema
from control.lifecycle.fleet import FleetMode
from control.reconcile.adapters import ADAPTERS, makers
from control.reconcile.clouds import Clouds, UnknownCloudError
from control.reconcile.daemon_home import DaemonHome
from templates_lib.values.clouds import CLOUDS, CloudKind
from templates_lib.values.engine_support import ANYTHING
from templates_lib.values.engines import ENGINES, EngineKind
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.planning.worlds import world_of
from tests.control.reconcile.reconciled import Place, Plane

OFFERS = """\
apiVersion: medley/v1
kind: Offers
offers:
  - {cloud: toy, region: north, instance_type: toy-box, node_config: 'L40S:1/n25', market: on-demand, usd_per_hour: 0.5}
"""
SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: chat
models:
  - model: gpt-oss-20b
    slo: {ttft_ms: 6000, tpot_ms: 600, keep: throughput}
    workload: azure-code
    disaggregated: false
    aggregated: true
    engine: toy
    demand: {requests_per_s: 0.2}
offers: {files: [toy.yaml]}
solver: {n_max: 1}
"""
NAMED = SPEC.replace("offers: {files: [toy.yaml]}", "clouds: [{cloud: toy}]")


@pytest.fixture
def toy_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "toy", EngineKind("toy:load", (), rented=ANYTHING, estimated_as="torch"))


@pytest.fixture
def toy_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLOUDS, "toy", CloudKind("toy-adapter"))
    monkeypatch.setitem(ADAPTERS, "toy-adapter", lambda _parts, cloud: FakeCloud(cloud, {"toy-box": 4}))


@pytest.fixture
def place(database: Database, tmp_path: Path) -> Place:
    (tmp_path / "toy.yaml").write_text(OFFERS)
    return Place(database, tmp_path)


@pytest.mark.usefixtures("toy_engine", "toy_cloud")
def test_a_fleet_on_a_toy_engine_is_planned_at_a_toy_cloud_and_its_node_is_rented(place: Place) -> None:
    with makers(place.database, DaemonHome.below(place.folder), {}) as by_cloud:
        toy = Clouds(by_cloud).need("toy")
        place.others = {"toy": toy}
        place.fleets.create("chat", SPEC, place.now, mode=FleetMode.AUTO, folder=str(place.folder))
        Plane(place).until_settled()
        assert place.states() == ["ready"]
        (node,) = toy.list({}, place.now)
        assert isinstance(toy, FakeCloud)
        assert toy.request(node.name).instance_type == "toy-box"


@pytest.mark.usefixtures("toy_cloud")
def test_an_engine_without_its_row_is_refused_where_it_is_named(place: Place) -> None:
    with pytest.raises(ValueError, match=r"fleet.yaml:10: models\[0\].engine: unknown value 'toy'; .*torch"):
        world_of(place.folder, SPEC)


def test_an_engine_without_an_estimate_is_refused_by_name(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "toy", EngineKind("toy:load", (), rented=ANYTHING))
    place.fleets.create("chat", SPEC, place.now, mode=FleetMode.AUTO, folder=str(place.folder))
    plane = Plane(place)
    plane.run(5)
    assert not place.states()
    assert "no cost coefficients for engine 'toy'" in str(plane.loop.trouble())


@pytest.mark.usefixtures("toy_engine")
def test_a_cloud_without_its_rows_is_refused_by_name(place: Place) -> None:
    with pytest.raises(ValueError, match=r"fleet.yaml:12: clouds\[0\].cloud: unknown cloud 'toy'; .*aws"):
        world_of(place.folder, NAMED)
    with (
        makers(place.database, DaemonHome.below(place.folder), {}) as by_cloud,
        pytest.raises(UnknownCloudError, match=r"cannot be rented at 'toy'; .*aws"),
    ):
        Clouds(by_cloud).need("toy")


@pytest.mark.usefixtures("toy_engine")
def test_schemas_list_what_is_registered_when_they_are_written() -> None:
    assert '"toy"' in json_schema()
