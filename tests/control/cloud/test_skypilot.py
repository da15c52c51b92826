"""SkyPilot's own server, SDK, optimiser, backend, status and teardown rent machines on three clouds at once."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from control.cloud.errors import (
    CloudError,
    OwnFaultError,
    QuotaError,
    RetryLaterError,
    StockOutError,
    UnauthorisedError,
)
from control.cloud.node import CloudNodeState, NodeRequest
from control.cloud.skypilot import server as server_module
from control.cloud.skypilot.server import ApiServer
from control.db.database import Database
from templates_lib.values.offer import Market
from tests.control.cloud.skypilot_harness import (
    OFFERS,
    ROOT,
    SkyPilotHarness,
    WorldSite,
    left_of,
    world_site,
)
from tests.control.cloud.skypilot_serving import answer
from tests.control.cloud.test_contract import Contract
from tests.control.db.processes import wait_until
from tests.control.lifecycle.worlds import START

pytestmark = [pytest.mark.slow, pytest.mark.needs("rsync", "sshd")]

DEFAULT_DISK_GIB = 256
"""SkyPilot's own."""
CLOUDS = ("aws", "gcp", "runpod")
TELLS = ("python3", "-c", "import os, signal; print(dict(os.environ), flush=True); signal.pause()")
PATCHED = {
    *(f"{cloud}.{check}" for cloud in ("GCP", "RunPod") for check in ("check_credentials", "get_user_identities")),
    "GCP.get_project_id",
    "GCP.get_image_size",
    "sky.authentication.setup_gcp_authentication",
    "sky.authentication.setup_runpod_authentication",
    *(f"provisioner of {cloud}" for cloud in CLOUDS),
}
"""All of SkyPilot that these tests replace: credentials of clouds that nothing here answers for, and creation."""


def spot(request: NodeRequest) -> NodeRequest:
    return replace(request, market=Market.SPOT)


def python(site: WorldSite, code: str) -> str:
    """What it prints, with SkyPilot as this site's processes see it."""
    environment = site.home.environment(ApiServer(site.home).ensure())
    command = (sys.executable, "-c", code)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def processes(site: WorldSite, word: str) -> Sequence[psutil.Process]:
    return [process for process in left_of(site.home) if word in command(process)]


def command(process: psutil.Process) -> str:
    """Empty where it has ended meanwhile."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def kill(process: psutil.Process) -> None:
    """Or let it have ended with one that was killed before."""
    with suppress(psutil.NoSuchProcess):
        process.kill()


def test_what_is_replaced_is_credentials_and_creation_and_nothing_else(skypilot_site: WorldSite) -> None:
    code = (
        "import json\nfrom sky import provision\nfrom tests.control.cloud.skypilot_world import plugin\n"
        "plugin.LocalClouds('/nowhere').install(None)\n"
        "print(json.dumps([*plugin.PATCHED, *(f'provisioner of {c}' for c in provision._registered_provisioners)]))"
    )
    assert set(json.loads(python(skypilot_site, code).splitlines()[-1])) == PATCHED


def test_skypilot_reckons_with_the_prices_of_our_offers(skypilot_site: WorldSite) -> None:
    asked = [(f"{o.cloud}/{o.region}/{o.zone}", o.instance_type, o.market is Market.SPOT) for o in OFFERS]
    code = (
        f"import json, sky\nprint(json.dumps([sky.Resources(infra=i, instance_type=t, use_spot=s).get_cost(3600) "
        f"for i, t, s in {asked!r}]))"
    )
    costs = json.loads(python(skypilot_site, code).splitlines()[-1])
    assert costs == pytest.approx([offer.usd_per_hour for offer in OFFERS])


class TestContract(Contract):
    """In this file, so that one server does for all tests that need one."""

    @pytest.fixture
    def harness(self, skypilot: SkyPilotHarness) -> SkyPilotHarness:
        return skypilot


def test_a_node_in_no_network_serves_tokens_of_a_real_model_at_a_published_port(
    skypilot_site: WorldSite, database: Database
) -> None:
    pods = skypilot_site.harness("runpod")
    try:
        assert "Paris" in answer(pods, database, "The capital of France is")
    finally:
        pods.end()
    assert skypilot_site.world.machines() == []


def test_three_clouds_rent_at_once_and_each_lists_its_own(skypilot_site: WorldSite) -> None:
    harnesses = {cloud: skypilot_site.harness(cloud) for cloud in CLOUDS}
    token = "token-of-three-clouds"  # noqa: S105
    try:
        with ThreadPoolExecutor(len(CLOUDS)) as pool:
            asked = {c: spot(h.request(f"medley-i-{c}", command=TELLS, secret=token)) for c, h in harnesses.items()}
            asked["gcp"] = replace(asked["gcp"], disk_gib=730)
            started = {c: pool.submit(h.cloud().create, asked[c], START) for c, h in harnesses.items()}
            nodes = {cloud: node.result() for cloud, node in started.items()}
        for cloud, harness in harnesses.items():
            assert harness.cloud().list({"medley-owner": "me"}, START) == (nodes[cloud],)
            assert nodes[cloud].state is CloudNodeState.RUNNING
            (machine,) = [m for m in skypilot_site.world.machines() if m.cloud == cloud]
            assert machine.spot
            assert machine.disk_gib == (730 if cloud == "gcp" else DEFAULT_DISK_GIB)
            assert (machine.zone, machine.instance_type) == (harness.place[1], harness.small)
            assert machine.labels == {"medley-owner": "me", "medley-node": f"medley-i-{cloud}"}
            assert machine.cluster == f"medley-i-{cloud}-{skypilot_site.home.user_hash}"
            wait_until(lambda machine=machine: token in skypilot_site.world.log(machine.id))
            said = skypilot_site.world.log(machine.id)
            assert "'MEDLEY_SERVER': 'tcp://127.0.0.1:1'" in said
            assert "'MEDLEY_NODE_ADDRESS': '127.0.0.1'" in said
            assert not (skypilot_site.world.home(machine.id) / ".medley" / "secrets").exists()
        assert files_with(skypilot_site.home.path, token) == []
    finally:
        for harness in harnesses.values():
            harness.end()
    assert skypilot_site.world.machines() == []


def files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_several_nodes_of_one_cloud_boot_side_by_side(skypilot: SkyPilotHarness) -> None:
    cloud = skypilot.cloud()
    requests = [skypilot.request(f"n{n}", kind) for n, kind in enumerate([skypilot.small, skypilot.large] * 2)]
    with ThreadPoolExecutor(len(requests)) as pool:
        nodes = list(pool.map(lambda request: cloud.create(request, START), requests))
    assert cloud.list({}, START) == tuple(nodes)


def test_a_launch_whose_asker_was_killed_is_taken_up_and_not_doubled(skypilot: SkyPilotHarness) -> None:
    world, name = skypilot.site.world, "medley-i7-0-0"
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(skypilot.cloud().create, skypilot.request(name), START)
        wait_until(lambda: len(world.machines()) == 1)
        for process in processes(skypilot.site, "control.cloud.skypilot.sdk"):
            kill(process)
        with pytest.raises(RetryLaterError):
            lost.result()
    node = skypilot.cloud().create(skypilot.request(name), START)
    assert skypilot.cloud().list({}, START) == (node,)
    assert len(world.machines()) == 1


def test_a_launch_whose_server_was_killed_is_taken_up_and_the_next_server_knows_all_nodes(
    skypilot: SkyPilotHarness,
) -> None:
    world, cloud = skypilot.site.world, skypilot.cloud()
    before = cloud.create(skypilot.request("medley-i8-0-0"), START)
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(cloud.create, skypilot.request("medley-i8-1-0"), START)
        wait_until(lambda: len(world.machines()) == 2)
        pids = {machine.pid for machine in world.machines()}
        for process in left_of(skypilot.site.home):
            if "control.cloud.skypilot.sdk" not in command(process):
                kill(process)
        with pytest.raises(RetryLaterError):
            lost.result()
    taken_up = cloud.create(skypilot.request("medley-i8-1-0"), START)
    assert cloud.list({}, START) == (before, taken_up)
    assert {machine.pid for machine in world.machines()} == pids


@pytest.mark.parametrize(
    ("cloud", "code", "words", "expected"),
    [
        ("aws", "InsufficientInstanceCapacity", "no sufficient capacity", StockOutError),
        ("aws", "VcpuLimitExceeded", "more vCPU capacity than your limit", QuotaError),
        ("aws", "UnauthorizedOperation", "You are not authorized", UnauthorisedError),
        ("gcp", "ZONE_RESOURCE_POOL_EXHAUSTED", "does not have enough resources", StockOutError),
        ("gcp", "QUOTA_EXCEEDED", "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 1.0 in region us-central1.", QuotaError),
        ("gcp", "rateLimitExceeded", "Queries per minute", RetryLaterError),
        ("gcp", "IAM_PERMISSION_DENIED", "denied on service account", UnauthorisedError),
        ("runpod", "", "There are no longer any instances available with the requested specifications.", StockOutError),
        ("runpod", "", "Unauthorized request, please check your API key.", UnauthorisedError),
        ("gcp", "FileNotFoundError", "[Errno 2] No such file or directory: 'ssh-keygen'", OwnFaultError),
        ("aws", "ConnectionError", "Connection aborted by the peer", RetryLaterError),
    ],
)
def test_a_refusal_or_a_fault_comes_through_skypilot_as_the_next_step_and_leaves_nothing(
    skypilot_site: WorldSite, cloud: str, code: str, words: str, expected: type[CloudError]
) -> None:
    harness = skypilot_site.harness(cloud)
    skypilot_site.world.refuse_next(cloud, code, words)
    with pytest.raises(CloudError) as raised:
        harness.cloud().create(harness.request("medley-i5-0-0"), START)
    assert type(raised.value) is expected
    assert (code or words.split(".", maxsplit=1)[0]) in str(raised.value)
    assert harness.cloud().list({}, START) == ()
    assert skypilot_site.world.machines() == []


def test_a_cloud_whose_credentials_do_not_do_is_left_out_with_the_reason(tmp_path: Path) -> None:
    reason = "~/.runpod/config.toml does not exist."
    with world_site(tmp_path, {"runpod": reason}) as site:
        left_out, gcp = site.harness("runpod"), site.harness("gcp")
        with pytest.raises(UnauthorisedError, match=re.escape(reason)):
            left_out.cloud().create(left_out.request(), START)
        assert site.world.machines() == []
        node = gcp.cloud().create(gcp.request(), START)
        assert gcp.cloud().list({}, START) == (node,)
        assert "Instances of 'medley-i1-0-0' are ready" in gcp.cloud().log(node.name, 200)
        gcp.cloud().terminate(node.name, START)


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def test_a_server_that_is_stopped_leaves_no_process_and_starts_again_with_what_it_knew_on_ports_that_are_free(
    skypilot: SkyPilotHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SkyPilot's queue has a port of its own, as far from 50011 as the server's is from 46580."""
    node = skypilot.cloud().create(skypilot.request(), START)
    server = ApiServer(skypilot.site.home)
    assert server.ensure() == server.ensure()
    server.stop()
    assert not processes(skypilot.site, "sky.server")
    assert [p for p in left_of(skypilot.site.home) if "control.cloud.skypilot.sdk" not in command(p)] == []

    free, queue = server_module._free_port, next(port for port in range(50100, 60000) if _is_free(port))
    ports = iter([taken := 46580 + queue - 50011])
    monkeypatch.setattr(server_module, "_free_port", lambda: next(ports, None) or free())
    before = skypilot.site.home.server_log.stat().st_size
    with socket.create_server(("127.0.0.1", queue)):
        port = server.ensure()
    assert port != taken
    assert b"already in use" in skypilot.site.home.server_log.read_bytes()[before:]
    assert skypilot.cloud().list({}, START) == (node,)
    assert server.ensure() == port
