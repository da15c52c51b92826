"""Own machines over a real sshd: who is let in, what is verified, what is left behind, and a real node agent."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from agents.channels.keys import KeyPair
from control.cloud.errors import GiveUpError, RetryLaterError, StockOutError, UnauthorisedError
from control.cloud.ssh.cloud import PASSED_OVER_AFTER, OwnMachines
from control.cloud.ssh.own_host import OwnHost
from control.db.agent_keys import PostgresAgentKeys
from control.db.database import Database
from control.executor.node_start import NodeStart
from control.executor.provision import NodePlace, provision
from control.executor.wind_down import wind_down
from control.hub.board import Board
from control.hub.hub import Hub
from templates_lib.values.offer import Market, Offer
from tests.agents.channels.channel_ends import FAST
from tests.control.cloud.harness import FOREVER, request
from tests.control.cloud.ssh_harness import Sshd, key, sshd, stranger
from tests.control.cloud.test_local_cloud import STUBBORN_FAMILY
from tests.control.db.processes import ROOT, lives, wait_until
from tests.control.executor.fleets import fleet
from tests.control.lifecycle.worlds import START, requested

pytestmark = pytest.mark.needs("sshd")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("own") / "hosts", ("small", "small")) as server:
        yield server


@pytest.fixture
def one(server: Sshd) -> Iterator[OwnHost]:
    """A host on which nothing is left."""
    yield server.hosts[0]
    cloud = OwnMachines(server.hosts)
    left = cloud.list({}, START)  # over SSH, which takes its time
    for node in left:
        cloud.terminate(node.name, START)
    assert not left or cloud.list({}, START) == ()


def test_a_host_whose_key_is_another_is_sent_nothing(one: OwnHost, tmp_path: Path) -> None:
    with pytest.raises(UnauthorisedError, match="another key than the spec's host_key"):
        OwnMachines([stranger(one, tmp_path)]).create(request(), START)
    assert OwnMachines([one]).list({}, START) == ()


def test_a_host_that_does_not_know_our_key_says_so(one: OwnHost, tmp_path: Path) -> None:
    key(tmp_path / "nobody")
    with pytest.raises(UnauthorisedError, match=r"does not let us in: check user, key_file"):
        OwnMachines([replace(one, key_file=tmp_path / "nobody")]).list({}, START)


def test_a_host_that_is_away_is_waited_for_and_then_passed_over(one: OwnHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = replace(one, name="away", port=closed.getsockname()[1])
    cloud = OwnMachines([away, one])
    for call in (lambda: cloud.create(request(), START), lambda: cloud.list({}, START)):
        with pytest.raises(RetryLaterError, match=r"host away .* cannot be reached: .*refused"):
            call()
    later = START + PASSED_OVER_AFTER
    node = cloud.create(request(), later)
    assert node.provider_id.startswith(f"{one.name}/")
    with pytest.raises(StockOutError):
        cloud.create(request("another"), later)
    with pytest.raises(RetryLaterError):
        OwnMachines([away, one]).terminate(node.name, later + timedelta(hours=1))
    cloud.terminate(node.name, later)


def test_a_name_on_two_hosts_becomes_one_again(one: OwnHost, server: Sshd) -> None:
    first, second = (OwnMachines([host]).create(request(), START) for host in server.hosts)
    assert first.provider_id != second.provider_id
    both = OwnMachines(server.hosts)
    assert both.create(request(), START).provider_id == first.provider_id
    assert [node.provider_id for node in both.list({}, START)] == [first.provider_id]


def test_the_whole_tree_is_ended_however_it_resists(one: OwnHost, server: Sshd) -> None:
    cloud = OwnMachines([one])
    node = cloud.create(request(command=(sys.executable, "-c", STUBBORN_FAMILY)), START)
    log = server.home(one) / ".medley" / "own" / "log"
    wait_until(lambda: len(log.read_text().split()) == 3)
    pids = [int(pid) for pid in log.read_text().split()]
    assert all(lives(pid) for pid in pids)
    cloud.terminate(node.name, START)
    assert not any(lives(pid) for pid in pids)
    assert cloud.list({}, START) == ()


def test_a_node_has_its_secrets_and_no_file_or_argument_has_them(one: OwnHost, server: Sshd) -> None:
    node = OwnMachines([one]).create(request(secret="token-of-the-node"), START)  # noqa: S106
    process = psutil.Process(int(node.provider_id.partition("/")[2].partition("-")[0]))
    assert process.environ()["MEDLEY_BOOTSTRAP_TOKEN"] == "token-of-the-node"  # noqa: S105
    assert "token-of-the-node" not in " ".join(process.cmdline())
    files = [path for path in server.home(one).rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"lock", "log", "log.name", "record.json"}
    assert not any(b"token-of-the-node" in path.read_bytes() for path in files)
    assert all(path.stat().st_mode & 0o077 == 0 for path in files if path.name == "log")


def test_another_process_with_the_same_pid_is_not_mistaken_for_a_node(one: OwnHost, server: Sshd) -> None:
    OwnMachines([one]).create(request(), START)
    path = server.home(one) / ".medley" / "own" / "record.json"
    record = json.loads(path.read_text())
    psutil.Process(record["leader"]["pid"]).kill()
    wait_until(lambda: not lives(record["leader"]["pid"]))
    path.write_text(json.dumps(record | {"leader": record["leader"] | {"pid": os.getpid()}}))
    OwnMachines([one]).terminate("medley-i1-0-0", START)
    assert OwnMachines([one]).list({}, START) == ()


def test_a_program_that_is_not_there_and_a_host_of_another_kind_are_refused(one: OwnHost) -> None:
    with pytest.raises(GiveUpError, match="there is no program 'no-such-program' there"):
        OwnMachines([one]).create(request(command=("no-such-program",)), START)
    with pytest.raises(GiveUpError, match="did you mean 'small'"):
        OwnMachines([one]).create(request(instance_type="smal"), START)
    assert OwnMachines([one]).list({}, START) == ()


def test_what_a_node_prints_is_read_also_once_it_has_ended_and_is_no_other_nodes(one: OwnHost, server: Sshd) -> None:
    cloud = OwnMachines(server.hosts)
    first, second = request("medley-a"), request("medley-b")
    cloud.create(replace(first, command=(sys.executable, "-c", "print('one\\ntwo')")), START)
    wait_until(lambda: not [node for node in cloud.list({}, START) if node.name == first.name])
    assert cloud.printed(first.name, 5) == "one\ntwo"
    assert cloud.printed(first.name, 1) == "two"
    assert cloud.printed(second.name, 5) == ""
    cloud.create(second, START)
    assert cloud.printed(first.name, 5) == "", "another node is there now"


def test_a_host_may_have_a_python_of_its_own(one: OwnHost) -> None:
    node = OwnMachines([replace(one, python=sys.executable)]).create(request(command=("python3", *FOREVER[1:])), START)
    leader = psutil.Process(int(node.provider_id.partition("/")[2].partition("-")[0]))
    assert leader.cmdline()[0] == sys.executable


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("address", "-oProxyCommand=touch /tmp/x"),
        ("address", "a b"),
        ("user", "-l"),
        ("user", "root;id"),
        ("host_key", "AAAA"),
        ("host_key", "ssh-ed25519 AAAA\nanother ssh-ed25519 AAAA"),
        ("port", 0),
    ],
)
def test_what_could_not_be_a_host_or_would_be_an_option_is_refused(server: Sshd, field: str, value: object) -> None:
    with pytest.raises(ValueError, match="host 'h0-small'"):
        replace(server.hosts[0], **{field: value})


def test_a_real_node_agent_is_started_registers_and_reports(one: OwnHost, server: Sshd, database: Database) -> None:
    agent_home = server.home(one) / ".medley" / "node"
    cloud = OwnMachines([one])
    medley, instance, keys = fleet(database, cloud), requested(database), PostgresAgentKeys(database)
    offer = Offer("owned", "here", "here", "small", "CPU:1/n10", Market.OWNED, 0.0, 1)

    async def scenario() -> tuple[str, list[str]]:
        own_keys = KeyPair.generate()
        board = Board({}, FAST.lost_after_s, 0.0)
        hub = Hub("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", own_keys, keys, {}, board, lambda: START)
        where = ("--registry", hub.registry_endpoint, "--hub", hub.endpoint, f"--control-key={own_keys.public}")
        command = (sys.executable, "-m", "agents.node", *where, "--home", ".medley/node")
        start = NodeStart(command, {"PYTHONPATH": str(ROOT)})
        await asyncio.to_thread(
            provision, medley.instances, medley.nodes, medley.executor, instance.id, [NodePlace((offer,), start)]
        )
        try:
            async with asyncio.timeout(240):
                while not board.loads():
                    await asyncio.sleep(0.05)
            return next(iter(board.loads())), [path.name for path in agent_home.iterdir()]
        finally:
            hub.close()

    try:
        name, kept = asyncio.run(scenario())
        (node,) = medley.instances.load(instance.id).nodes
        assert kept == [node.id]
        assert (name, set(keys.living().values())) == (node.id, {node.id})
        assert medley.recover().lost == []
    finally:
        done = wind_down(medley.instances, medley.executor, instance.id, "seen enough")
    assert (done.instance.state, done.left) == ("terminated", {})
    assert cloud.list({}, START) == ()
    assert list(agent_home.iterdir()) == []
