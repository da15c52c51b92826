"""The overlay network: keys that follow from one secret, and a tunnel that nodes open and nobody else gets into."""

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.set_up import SetUp
from control.db.database import Database
from control.executor.node_start import NodeStart
from control.lifecycle.event import EventKind
from control.overlay.identity import OverlayIdentity
from control.overlay.interface import OverlayError, OverlayInterface
from control.overlay.invitation import OverlayInvitation
from control.overlay.place import DEVICE, KEY_VARIABLE
from templates_lib.values.reach import Reach
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.cloud.harness import request
from tests.control.executor.fleets import fleet, offer
from tests.control.lifecycle.worlds import driven

HERE, THERE, PORT = "10.213.9.1", "10.213.9.2", 51833


@pytest.fixture
def identity(tmp_path: Path) -> OverlayIdentity:
    return OverlayIdentity.of_file(tmp_path / "overlay.key")


def test_all_follows_from_a_secret_that_its_owner_alone_reads(tmp_path: Path, identity: OverlayIdentity) -> None:
    path = tmp_path / "overlay.key"
    assert path.stat().st_mode & 0o077 == 0
    again = OverlayIdentity.of_file(path)
    names = [f"medley-i{n}-0-0" for n in range(50)]
    members = [identity.hub, *map(identity.node, names)]
    assert [again.hub, *map(again.node, names)] == members
    assert len({each.address for each in members}) == len({each.public_key for each in members}) == len(members)
    assert all(each.address in identity.network for each in members)
    assert identity.network.is_private
    assert identity.secret.reveal() not in repr((identity, members))
    other = OverlayIdentity.of_file(tmp_path / "other.key")
    assert other.network != identity.network
    path.write_text("short")
    with pytest.raises(ValueError, match="damaged"):
        OverlayIdentity.of_file(path)


@pytest.mark.needs("wireguard")
def test_wireguards_own_tools_agree_about_public_keys(identity: OverlayIdentity) -> None:
    for member in (identity.hub, identity.node("a"), identity.node("b")):
        told = subprocess.run(("wg", "pubkey"), input=member.key.reveal(), capture_output=True, text=True, check=True)
        assert told.stdout.strip() == member.public_key


def test_a_node_gets_its_key_as_a_secret_and_its_address_by_name(database: Database, identity: OverlayIdentity) -> None:
    cloud = FakeCloud("fake", {"small": 1})
    medley, instance = fleet(database, cloud), driven(database, EventKind.PROVISION)
    start = NodeStart(("true",), overlay=OverlayInvitation(identity, "2001:db8::7"))
    node = medley.executor.rent(instance.id, 0, offer(), start)
    asked, member = cloud.request(node.name), identity.node(node.name)
    assert asked.secrets[KEY_VARIABLE] == member.key
    assert asked.environment["MEDLEY_OVERLAY_ADDRESS"] == str(member.address)
    assert member.key.reveal() not in repr(asked)
    assert asked.overlay is not None
    assert asked.overlay.endpoint == "[2001:db8::7]:51820"


def test_gateways_reach_over_it_what_takes_it_and_kv_caches_do_not() -> None:
    reach = Reach(gateways="aws/us-east-1", overlay=True)
    networks = ("aws/us-east-2", "gcp", "kubernetes", "azure/eastus")
    assert [reach.serves(each) for each in networks] == [True, True, False, False]
    assert not reach.joins("aws/us-east-2", "gcp")


@dataclass
class Node:
    """A network namespace with a wire to this machine, and a folder of its own for sockets of WireGuard's program."""

    init: "subprocess.Popen[bytes]"

    @property
    def inside(self) -> tuple[str, ...]:
        return ("nsenter", "-t", str(self.init.pid), "-n", "-m")

    def run(self, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        inside, known = (*self.inside, *command), {**os.environ, **environment}
        return subprocess.run(inside, capture_output=True, text=True, check=False, env=known)

    def reaches(self, address: str, port: int) -> bool:
        code = f"import socket; socket.create_connection(({address!r}, {port}), timeout=2).close()"
        return self.run("python3", "-c", code).returncode == 0


@pytest.fixture
def node() -> Iterator[Node]:
    name, end = f"ovl{os.getpid()}", f"ove{os.getpid()}"[:15]
    for command in (
        "mkdir -p /run/wireguard",
        f"ip netns add {name}",
        f"ip link add {end} type veth peer name eth0 netns {name}",
        f"ip addr add {HERE}/30 dev {end}",
        f"ip link set {end} up",
        f"ip -n {name} addr add {THERE}/30 dev eth0",
        f"ip -n {name} link set eth0 up",
        f"ip -n {name} link set lo up",
    ):
        subprocess.run(command.split(), check=True, capture_output=True)
    boot = "mount -t tmpfs tmpfs /run/wireguard && echo up && exec sleep infinity"
    init = subprocess.Popen(("ip", "netns", "exec", name, "sh", "-c", boot), stdout=subprocess.PIPE)
    assert init.stdout is not None
    assert init.stdout.readline() == b"up\n"
    made = Node(init)
    yield made
    made.run("ip", "link", "delete", DEVICE)  # which ends WireGuard's program
    init.kill()
    init.wait()
    init.stdout.close()
    for command in (f"ip netns delete {name}", f"ip link delete {DEVICE}"):
        subprocess.run(command.split(), check=False, capture_output=True)


def joined(identity: OverlayIdentity, name: str, node: Node, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run the part of the real set-up that joins the overlay."""
    place = OverlayInvitation(identity, HERE, PORT).place(name)
    secrets = {KEY_VARIABLE: identity.node(name).key}
    asked = replace(request(name), overlay=place, secrets=secrets)
    sent = SetUp(SkyPilotHome(folder / "sky", "me")).stage(asked)
    home = folder / name
    (home / ".medley").mkdir(parents=True)
    (home / ".medley" / "secrets").write_bytes(Path(sent.files["~/.medley/secrets"]).read_bytes())
    (part,) = [each for each in sent.set_up.split("\n[ $? -eq 0 ] &&\n") if "wireguard" in each]
    return node.run("bash", "-c", part, HOME=str(home))


@pytest.mark.needs("netns", "wireguard", "ipv6")
def test_a_node_that_is_let_in_and_its_control_plane_reach_each_other_and_others_do_not(
    identity: OverlayIdentity, node: Node, tmp_path: Path
) -> None:
    overlay, name = OverlayInterface(identity, PORT), "medley-i1-0-0"
    overlay.up()
    overlay.up()
    overlay.admit([name])
    done = joined(identity, name, node, tmp_path)
    assert done.returncode == 0, done.stderr
    assert identity.node(name).key.reveal() not in done.stdout + done.stderr
    hub, mine = str(identity.hub.address), str(identity.node(name).address)
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listening:
        port = listening.getsockname()[1]
        assert node.reaches(hub, port), "as nodes report"
        code = f"import socket; s = socket.create_server(({mine!r}, 0), family=socket.AF_INET6); " + (
            "print(s.getsockname()[1], flush=True); s.accept()"
        )
        with subprocess.Popen((*node.inside, "python3", "-c", code), stdout=subprocess.PIPE, text=True) as serving:
            assert serving.stdout is not None
            with socket.create_connection((mine, int(serving.stdout.readline())), timeout=60) as back:
                assert back.getpeername()[0] == mine, "as gateways ask"
            serving.wait(60)

        # A control plane that was started anew finds its nodes in. Given back, they are shut out.
        again = OverlayInterface(identity, PORT)
        again.up()
        assert node.reaches(hub, port)
        again.admit([])
        assert not node.reaches(hub, port)
    other = OverlayInterface(OverlayIdentity.of_file(tmp_path / "other.key"), PORT)
    with pytest.raises(OverlayError, match="another control plane"):
        other.up()
