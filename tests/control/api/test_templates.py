"""Templates over HTTP: what can be built, what it sustains, what it costs at least."""

import pytest

from control.api.routes.templates import least_prices, least_usd_per_hour
from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.planning.templates import build_library
from templates_lib.sources.listed_source import ListedSource, ListedTemplate
from templates_lib.values.template import OperatingPoint
from templates_lib.values.work import Unit, WorkClass
from tests.control.api.conftest import Api
from tests.control.api.worlds import spec
from tests.control.db.random_source import RandomSource
from tests.factories import offer
from tests.templates_lib.units import cell_template


def test_templates_of_a_class_are_paged(viewer: Api, database: Database) -> None:
    source = RandomSource(sizes=(5, 0, 7))
    libraries = PostgresLibraries(database)
    version = build_library(source, libraries, lambda *_: None, {})
    (info,) = viewer.get("/libraries").json()["items"]
    assert (info["version"], [c["id"] for c in info["classes"]]) == (version, ["a/prefill", "a/decode"])
    path = f"/libraries/{version}/templates?work_class=a/decode"
    whole = viewer.get(path).json()["items"]
    library = libraries.load(version)
    decode = {p for p, k in zip(library.entry_point.tolist(), library.entry_class.tolist(), strict=True) if k == 1}
    expected = {library.ids[library.point_template[point]].decode() for point in decode}
    assert {each["id"] for each in whole} == expected
    assert all(each["units_per_s"] > 0 and each["nodes"] for each in whole)
    first = viewer.get(f"{path}&limit=2").json()
    second = viewer.get(f"{path}&limit=2&cursor={first['next']}").json()
    assert first["items"] + second["items"] == whole[:4]
    unknown = viewer.get(f"/libraries/{version}/templates?work_class=a/decod")
    assert (unknown.status_code, "a/decode" in unknown.json()["detail"]) == (404, True)
    assert viewer.get("/libraries/none/templates?work_class=a/decode").status_code == 404


def test_a_template_of_components_is_shown_with_the_gpus_of_each_replica(viewer: Api, database: Database) -> None:
    template, work = cell_template(), WorkClass("vl/vision", "vl", "vision", Unit.IMAGE_TOKEN, "s", 0.0)
    points = (OperatingPoint({work.id: 5.0}),)
    listed = ListedTemplate(template.software, template.nodes, template.placement, points)
    build_library(ListedSource((work,), (listed,)), PostgresLibraries(database), lambda *_: None, {})
    shown = viewer.get(f"/templates/{listed.template().id}").json()
    assert shown["stages"] is None
    found = [(each["components"], each["gpus"], each["devices"]) for each in shown["executors"]]
    assert found == [(["vision"], 1, [[0], [1]]), (["vision", "language"], 2, [[2, 3]])]


def test_the_least_price_is_of_one_zone() -> None:
    offers = [
        offer("A", "aws/a", 1.0), offer("A", "aws/a", 0.9, instance_type="other"), offer("B", "aws/a", 5.0),
        offer("A", "aws/b", 2.0), offer("B", "aws/b", 3.0), offer("B", "aws/c", 0.1, 0),
    ]  # fmt: skip
    prices = least_prices(offers)
    assert least_usd_per_hour({"A": 2}, prices) == pytest.approx(1.8)
    assert least_usd_per_hour({"A": 1, "B": 1}, prices) == pytest.approx(5.0)
    assert least_usd_per_hour({"A": 1, "C": 1}, prices) is None


def test_what_fleets_state_of_their_own_machines_is_on_the_market(admin: Api) -> None:
    def configs(query: str) -> dict[str, float]:
        return {
            each["node_config"]: each["usd_per_hour"] for each in admin.get(f"/markets/cells?{query}").json()["items"]
        }

    assert configs("cloud=local") == {}
    kinds = [{"name": "lesser", "cpu_cores": 0.5, "memory_mib": 360, "stock": 2, "usd_per_hour": 0.01}]
    assert admin.post("/fleets", {"spec": spec(clouds=[{"cloud": "local", "kinds": kinds}])}).status_code == 201
    assert configs("cloud=local") == {"lesser:1/n10": 0.01}
    (offer,) = admin.get("/offers?cloud=local").json()["items"]
    assert (offer["zone"], offer["available_count"], offer["usd_per_gpu_hour"]) == ("here", 2, 0.01)
    host = {"name": "rack-1", "address": "10.0.0.1", "user": "medley", "node_config": "L4:1/n10", "zone": "cellar"}
    host |= {"host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHqS6YkqzHzdbqVnFZ0lqZLmzZ5v3q0m7n0o5p6q7r8s"}
    owned = spec("own", clouds=[{"cloud": "owned", "hosts": [host]}])
    made = admin.post("/fleets", {"spec": owned})
    assert made.status_code == 201, made.text
    assert configs("cloud=owned&market=owned") == {"L4:1/n10": 0}
