"""Own machines in a spec file: offers at a price of zero or a stated one, in one plan with what is rented."""

from pathlib import Path

import pytest

from control.db.database import Database
from control.fleet_file.problem import SpecError
from control.planning.world import World
from control.reconcile.fleet_world import document_of
from templates_lib.values.offer import Market
from tests.control.planning.worlds import planned, world_of

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl7bY2cVqLzJ0cB5M6mP0m8n1x2y3z4A5B6C7D8E9F0"
SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: chat
models:
  - model: gpt-oss-20b
    engine: vllm-stage
    slo: {ttft_ms: 1500, tpot_ms: 60}
    workload: azure-conversation
    demand: {requests_per_s: 30}
clouds:
  - cloud: aws
    regions: [us-east-2]
    gpus: [L40S]
  - cloud: owned
    hosts:
"""
HOST = (
    "      - {{name: h{n}, address: 10.0.0.{n}, user: medley, host_key: {key}, key_file: keys/medley, "
    "node_config: 'L40S:1/n10', zone: hall-a{more}}}\n"
)
SOLVER = "solver: {n_max: 1, gap: 0.01}\n"


def host(number: int, more: str = "") -> str:
    return HOST.format(n=number, key=KEY, more=more)


def world(tmp_path: Path, hosts: str) -> World:
    return world_of(tmp_path, SPEC + hosts + SOLVER)


def test_hosts_of_a_zone_and_kind_are_one_offer(tmp_path: Path) -> None:
    found = world(tmp_path, host(1) + host(2) + host(3, ", port: 2222, usd_per_hour: 0").replace("hall-a", "hall-b"))
    own = [offer for offer in found.quotes.offers if offer.cloud == "owned"]
    assert {offer.key: (offer.usd_per_hour, offer.available_count) for offer in own} == {
        "owned/hall-a/L40Sx1-n10/owned": (0, 2),
        "owned/hall-b/L40Sx1-n10/owned": (0, 1),
    }
    assert [(h.name, h.address, h.port, h.instance_type, h.zone) for h in found.fleet.hosts][2] == (
        "h3", "10.0.0.3", 2222, "L40Sx1-n10", "hall-b",
    )  # fmt: skip
    assert found.fleet.hosts[0].key_file == tmp_path / "keys" / "medley"


def test_a_plan_uses_what_is_owned_first_and_rents_the_rest(tmp_path: Path, database: Database) -> None:
    plan = planned(database, world(tmp_path, host(1) + host(2)))
    nodes = {offer.offer.partition("/")[0]: offer.nodes for offer in plan.offers}
    assert nodes["owned"] == 2
    assert nodes["aws"] > 0
    assert {instance.market for instance in plan.instances} == {Market.OWNED, Market.ON_DEMAND}
    rented = sum(o.nodes * o.usd_per_hour for o in plan.offers if o.offer.startswith("aws"))
    assert plan.rent_usd_per_hour == pytest.approx(rented)
    assert plan.unmet == {}


@pytest.mark.parametrize(
    ("hosts", "line", "text"),
    [
        (host(1) + host(1), 14, "h1 occurs twice"),
        (host(1) + host(2, ", usd_per_hour: 1"), 14, "cost 0 and 1 $/h: state one price"),
        (host(1).replace("L40S:1/n10", "L4O:1/n10"), 16, "did you mean"),
        (host(1).replace(KEY, "none"), 16, "host_key is no public key"),
        (host(1).replace("10.0.0.1", "-oProxyCommand=x"), 16, "is no address"),
        (host(1).replace("host_key", "hostkey"), 16, "did you mean 'host_key'"),
        ("    regions: [a]\n", 14, "hosts"),
    ],
)
def test_what_cannot_be_is_told_at_its_line(tmp_path: Path, hosts: str, line: int, text: str) -> None:
    with pytest.raises(SpecError) as caught:
        world(tmp_path, hosts)
    told = [str(problem) for problem in caught.value.problems]
    assert any(f"fleet.yaml:{line}: " in one and text in one for one in told), told


def test_a_spec_that_was_sent_names_no_key_file_of_the_control_plane() -> None:
    with pytest.raises(SpecError, match=r"clouds\.1\.hosts\.0\.key_file: 'keys/medley' is a path"):
        document_of(SPEC + host(1), "", "chat")
