"""The adapter's own decisions, with SkyPilot's answers as given: what is cached, what is left over, what is sent."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import yaml

from control.cloud.errors import GiveUpError, OwnFaultError, RetryLaterError, StockOutError, UnauthorisedError
from control.cloud.node import CloudNodeState
from control.cloud.skypilot.agent_wheel import agent_wheel
from control.cloud.skypilot.cloud import SkyPilotCloud
from control.cloud.skypilot.fleet import SkyPilotFleet
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.log_failure import ASTRAY, failure_in
from control.cloud.skypilot.market import machine_rows
from control.cloud.skypilot.messages import (
    Call,
    CallFailed,
    Check,
    Checked,
    ClusterRecord,
    Clusters,
    Down,
    Ended,
    EndMachine,
    LaunchCluster,
    Machine,
    Machines,
    Refresh,
    Reply,
    SweepMachines,
    Tail,
    Text,
)
from control.cloud.skypilot.process import SdkProcess
from control.cloud.skypilot.set_up import SET_UP_FAILED, SetUp
from control.cloud.skypilot.settings import SkyPilotSettings
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers
from templates_lib.values.offer import Market
from tests.control.cloud.harness import request
from tests.control.lifecycle.worlds import START

NODE = "medley-i1-0-0"


def cluster(name: str = NODE, status: str = "UP", ever_up: bool = True, launching: bool = False) -> ClusterRecord:
    labels = {"medley-owner": "me", "medley-node": name}
    return ClusterRecord(name, "aws", "here", "here", "small", False, status, ever_up, launching, "i-1", labels)


class Answers(SdkProcess):
    """Instead of the process: an answer a kind of call, and what was asked."""

    def __init__(self, home: SkyPilotHome, answers: Mapping[type, Reply]) -> None:
        super().__init__(home)
        nothing = {SweepMachines: Machines(()), Refresh: Clusters((), {}), Down: Ended(), EndMachine: Ended()}
        self.answers = {**nothing, Check: Checked({"aws": ""}), **answers}
        self.asked: list[Call] = []

    def call(self, call: Call, timeout_s: float) -> Reply:  # noqa: ARG002
        self.asked.append(call)
        return self.answers[type(call)]

    def count(self, kind: type) -> int:
        return sum(isinstance(call, kind) for call in self.asked)


WHEEL = f"~/.medley/{agent_wheel().name}"


@pytest.fixture
def home(tmp_path: Path) -> SkyPilotHome:
    return SkyPilotHome(tmp_path / "skypilot", "me")


def adapter(
    home: SkyPilotHome, answers: Mapping[type, Reply], settings: SkyPilotSettings | None = None
) -> tuple[SkyPilotCloud, Answers]:
    process = Answers(home, answers)
    return SkyPilotCloud("aws", SkyPilotFleet(process, settings or SkyPilotSettings()), SetUp(home)), process


@pytest.mark.parametrize(
    ("known", "state"),
    [
        (cluster(), CloudNodeState.RUNNING),
        (cluster(status="INIT", ever_up=False, launching=True), CloudNodeState.STARTING),
        (
            msgspec.structs.replace(cluster(status="INIT", ever_up=False, launching=True), provider_id=""),
            CloudNodeState.QUEUED,
        ),
        (cluster(status="INIT", ever_up=False), CloudNodeState.BROKEN),
        (cluster(status="INIT"), CloudNodeState.RUNNING),
        (cluster(status="STOPPED"), CloudNodeState.BROKEN),
    ],
    ids=["up", "launching", "queued", "broken off", "out of skypilot's reach", "stopped"],
)
def test_a_record_is_the_state_that_its_cloud_vouches_for(
    home: SkyPilotHome, known: ClusterRecord, state: CloudNodeState
) -> None:
    cloud, _ = adapter(home, {Refresh: Clusters((known,), {})})
    (node,) = cloud.list({"medley-owner": "me"}, START)
    assert (node.name, node.state, node.tags) == (NODE, state, {"medley-owner": "me"})


def test_a_cloud_without_credentials_that_work_is_not_asked_for_machines(home: SkyPilotHome) -> None:
    cloud, process = adapter(home, {Check: Checked({"aws": "the token has expired"}), LaunchCluster: cluster()})
    for _ in range(2):
        with pytest.raises(UnauthorisedError, match="aws: the token has expired"):
            cloud.create(request(), START)
    assert (process.count(Check), process.count(LaunchCluster)) == (2, 0)
    process.answers[Check] = Checked({"aws": ""})
    for _ in range(2):
        cloud.create(request(), START)
    assert (process.count(Check), process.count(LaunchCluster)) == (3, 2)
    process.answers[LaunchCluster] = CallFailed("Error", "UnauthorizedOperation: you are not", "")
    with pytest.raises(UnauthorisedError):
        cloud.create(request(), START)
    process.answers[LaunchCluster] = cluster()
    cloud.create(request(), START)
    assert process.count(Check) == 4


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("no AWS user\n  Reason: (SignatureDoesNotMatch): Signature expired: 1 is now earlier than 2", "clock"),
        ("no AWS user\n  Reason: [Errno -2] Name or service not known", "names"),
    ],
)
def test_credentials_that_this_machine_keeps_from_working_are_not_called_wrong(
    home: SkyPilotHome, reason: str, said: str
) -> None:
    cloud, _ = adapter(home, {Check: Checked({"aws": reason})})
    with pytest.raises(OwnFaultError, match=said) as raised:
        cloud.create(request(), START)
    assert not isinstance(raised.value, UnauthorisedError)


def test_clouds_are_asked_once_in_a_while_and_at_once_for_what_we_have_changed(home: SkyPilotHome) -> None:
    cloud, process = adapter(home, {Refresh: Clusters((cluster(), cluster("other")), {})})
    for _ in range(3):
        assert len(cloud.list({}, START)) == 2
    assert (process.count(Refresh), process.count(SweepMachines)) == (1, 1)
    process.answers[Refresh] = Clusters((), {})
    cloud.terminate(NODE, START)
    assert [node.name for node in cloud.list({}, START)] == ["other"]
    assert process.asked[-1] == Refresh((NODE,), asks_clouds=False)
    for seconds, asks_clouds in ((11, False), (22, False), (121, True), (132, False)):
        assert cloud.list({}, START + timedelta(seconds=seconds)) == ()
        assert process.asked[-1] == Refresh(None, asks_clouds), "nodes are not asked by ssh all the time"
    assert cloud.list({}, START - timedelta(hours=1)) == ()
    assert process.count(SweepMachines) == 2, "a clock that was set back is no reason to wait"


def test_a_machine_without_a_record_is_listed_returned_and_ended_at_its_cloud(home: SkyPilotHome) -> None:
    labels = {"medley-owner": "me", "medley-node": NODE}
    lost = Machine(NODE, "i-lost", "us-east-1", "small", False, labels)
    cloud, process = adapter(
        home, {SweepMachines: Machines((lost, Machine("kept", "i-2", "us-east-1", "small", False, {})))}
    )
    process.answers[Refresh] = Clusters((cluster("kept"),), {})
    nodes = cloud.list({}, START)
    assert [(node.name, node.provider_id) for node in nodes] == [("kept", "i-1"), (NODE, "i-lost")]
    assert cloud.create(request(), START) == nodes[1]
    with pytest.raises(GiveUpError, match="exists and is a small"):
        cloud.create(request(instance_type="large"), START)
    assert process.count(LaunchCluster) == 0
    cloud.terminate(NODE, START)
    assert process.asked[-1] == EndMachine("aws", lost)
    assert [node.name for node in cloud.list({}, START)] == ["kept"]


def test_nodes_that_cannot_be_asked_about_are_listed_as_last_known(home: SkyPilotHome) -> None:
    cloud, process = adapter(home, {Refresh: Clusters((cluster(),), {NODE: "Failed to query AWS cluster: time-out"})})
    assert [node.name for node in cloud.list({}, START)] == [NODE]
    process.answers[Refresh] = Clusters((cluster(),), {NODE: "botocore: ExpiredToken"})
    with pytest.raises(UnauthorisedError, match="ExpiredToken"):
        cloud.list({}, START + timedelta(seconds=11))
    process.answers[Refresh] = Clusters((cluster(),), {})
    assert [node.name for node in cloud.list({}, START + timedelta(seconds=22))] == [NODE], "clouds were asked again"


def test_a_cloud_that_cannot_be_swept_tells_no_half_truth(home: SkyPilotHome) -> None:
    cloud, process = adapter(home, {SweepMachines: CallFailed("NoCredentialsError", "Unable to locate credentials")})
    with pytest.raises(UnauthorisedError, match="Unable to locate credentials"):
        cloud.list({}, START)
    process.answers[SweepMachines] = Machines(())
    assert cloud.list({}, START) == ()


def test_what_a_failed_launch_has_left_is_ended_before_the_failure_is_told(home: SkyPilotHome) -> None:
    failed = CallFailed("CommandError", "Failed to sync code.tar.gz with return code 255.", "rsync: no space left\n")
    cloud, process = adapter(home, {LaunchCluster: failed, Refresh: Clusters((cluster(),), {})})
    with pytest.raises(GiveUpError, match="rsync: no space left"):
        cloud.create(request(), START)
    assert process.asked[-1] == Down(NODE)
    process.answers[Down] = CallFailed("RuntimeError", "Failed to terminate")
    with pytest.raises(RetryLaterError, match="could not be ended yet"):
        cloud.create(request(), START)


def test_a_stock_out_that_has_left_nothing_is_told_as_it_is(home: SkyPilotHome) -> None:
    log = "An error occurred (InsufficientInstanceCapacity) when calling the RunInstances operation: none"
    cloud, process = adapter(home, {LaunchCluster: CallFailed("ResourcesUnavailableError", "Failed to acquire", log)})
    with pytest.raises(StockOutError, match="InsufficientInstanceCapacity"):
        cloud.create(request(), START)
    assert process.count(Down) == 0
    assert list(home.launches.iterdir()) == []


def test_a_node_of_another_market_is_refused_at_once(home: SkyPilotHome) -> None:
    cloud, process = adapter(home, {})
    with pytest.raises(GiveUpError, match="owned"):
        cloud.create(replace(request(), market=Market.OWNED), START)
    assert process.asked == []


def test_where_an_offer_names_no_zone_or_region_none_is_asked_for(home: SkyPilotHome) -> None:
    cloud, process = adapter(home, {LaunchCluster: cluster()})
    for region, zone in (("us-east-1", "us-east-1a"), ("us-east-1", "us-east-1"), ("any", "any")):
        cloud.create(replace(request(), region=region, zone=zone), START)
    launches = [call for call in process.asked if isinstance(call, LaunchCluster)]
    assert [(call.region, call.zone) for call in launches] == [("us-east-1", "us-east-1a"), ("us-east-1", ""), ("", "")]


def test_what_is_staged_runs_the_command_with_its_secrets_which_nothing_else_holds(
    home: SkyPilotHome, tmp_path: Path
) -> None:
    code = "import os; print(os.environ['MEDLEY_BOOTSTRAP_TOKEN'], os.environ['MEDLEY_NODE_ADDRESS'], '$HOME')"
    sent = SetUp(home).stage(request(command=("python3", "-c", code), secret='it\'s a "secret" $x'))  # noqa: S106
    assert "it's a" not in sent.set_up + sent.run
    assert all(Path(path).stat().st_mode & 0o077 == 0 for path in sent.files.values())
    node = tmp_path / "node"
    for target, source in sent.files.items():
        path = node / target.removeprefix("~/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Path(source).read_bytes())
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"HOME": str(node), "PATH": path, "SKYPILOT_NODE_IPS": "10.0.0.7\n10.0.0.8"}
    script = f"{sent.set_up}\n{sent.run}"
    done = subprocess.run(("bash", "-e", "-c", script), env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == 'it\'s a "secret" $x 10.0.0.7 $HOME\n'
    assert not (node / ".medley" / "secrets").exists()
    assert (node / ".medley" / "code" / "agents" / "node" / "__main__.py").is_file()
    (about,) = (node / ".medley" / "code").glob("medley_serving-*.dist-info")
    assert (about / "METADATA").read_text().count("Name: medley-serving\n") == 1
    SetUp(home).forget("medley-i1-0-0")
    assert list(home.launches.iterdir()) == []


def test_a_node_in_no_network_has_its_ports_published_and_is_not_told_its_hosts_address(home: SkyPilotHome) -> None:
    cloud, process = adapter(home, {LaunchCluster: cluster()})
    cloud.create(replace(request(), published_ports=(7600, 7601)), START)
    (launch,) = [call for call in process.asked if isinstance(call, LaunchCluster)]
    assert launch.ports == (7600, 7601)
    assert 'MEDLEY_NODE_ADDRESS="127.0.0.1"' in launch.run
    assert "SKYPILOT_NODE_IPS" not in launch.run


@pytest.mark.parametrize("damage", [b"another wheel", None])
def test_a_wheel_that_is_not_the_one_that_was_sent_is_not_installed(
    home: SkyPilotHome, tmp_path: Path, damage: bytes | None
) -> None:
    sent = SetUp(home).stage(request(command=("true",)))
    wheel = tmp_path / WHEEL.removeprefix("~/")
    wheel.parent.mkdir()
    if damage is not None:
        wheel.write_bytes(damage)
    environment = {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script, merged = ("bash", "-c", sent.set_up), subprocess.STDOUT
    done = subprocess.run(script, env=environment, stdout=subprocess.PIPE, stderr=merged, text=True, check=False)
    assert done.returncode != 0
    assert {path.name for path in wheel.parent.iterdir()} == ({wheel.name} if damage else set())
    cloud, _ = adapter(home, {Tail: Text(f"Instances are ready\n{done.stdout}")})
    why = cloud.failure(NODE, START)
    assert f"{sent.sha256} was sent" in why
    assert hashlib.sha256(damage or b"").hexdigest() in why or damage is None


SMI = 'echo "{0}"; echo "{0}"'
"""What NVIDIA's tool prints on a machine of two GPUs."""


@pytest.mark.parametrize(
    ("tool", "installer", "words"),
    [
        (SMI.format("580.95.05"), None, ""),
        (SMI.format("595.1"), None, ""),
        (SMI.format("535.230.02"), None, "driver 535 of NVIDIA, and engines need 580"),
        ('echo "cannot communicate with the NVIDIA driver"; exit 9', None, "cannot communicate"),
        ("", None, "nvidia-smi"),  # there is none
        (SMI.format("580.95.05"), "echo 'no space left on device' >&2; exit 2", "no space left on device"),
    ],
)
def test_a_set_up_that_fails_says_why_in_the_last_lines_of_the_nodes_log(
    home: SkyPilotHome, tmp_path: Path, tool: str, installer: str | None, words: str
) -> None:
    node, programs = tmp_path / "node", tmp_path / "programs"
    programs.mkdir()
    for name, script in (("nvidia-smi", tool), ("uv", installer or "")):
        if script:
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
    sent = SetUp(home).stage(replace(request(command=("true",)), least_driver=580))
    (node / ".medley").mkdir(parents=True)
    shutil.copy(sent.files[WHEEL], node / ".medley")
    own = "" if installer else f":{Path(sys.executable).parent}"
    environment = {"HOME": str(node), "PATH": f"{programs}{own}:/usr/bin:/bin"}
    script, merged = ("bash", "-c", sent.set_up), subprocess.STDOUT
    done = subprocess.run(script, env=environment, stdout=subprocess.PIPE, stderr=merged, text=True, check=False)
    log = "".join(f"(setup pid=4711) {line}\n" for line in done.stdout.splitlines())
    cloud, process = adapter(home, {Tail: Text(f"Instances are ready\n{log}")})
    why = cloud.failure(NODE, START)
    assert (done.returncode == 0, why == "") == (not words, not words), done.stdout
    assert words in why
    assert cloud.failure(NODE, START + timedelta(seconds=5)) == "", "it is not asked by ssh all the time"
    assert process.count(Tail) == 1
    assert cloud.failure(NODE, START + timedelta(seconds=20)) == why


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ('{"message":"registered as n"}\n', ""),
        ('{"message":"tcp://10.0.0.1:7502 has not registered us within 15 s; trying on"}\n', "ports open"),
        ('{"message":"tcp://h:1 has not registered us within 15 s; trying on"}\n{"message":"registered as n"}\n', ""),
        (
            "Instances are up\n(medley-node, pid=7) node: the registry refuses us: the token has expired\n"
            "ERROR: Job 1 failed with return code list: [1]\n",
            "the token has expired",
        ),
        (
            "(medley-node, pid=7) Traceback (most recent call last):\n(medley-node, pid=7) ImportError: libcuda.so.1\n"
            "ERROR: Job 1 failed with return code list: [1] \n",
            "ImportError: libcuda.so.1",
        ),
        (
            '(medley-node, pid=7) {"message":"registered as n"}\nERROR: Job 1 failed with return code list: [137]\n',
            "137",
        ),
        ("ERROR: Job 1's setup failed. Failed workers: (pid=7, returncode=137).\n", "137"),
        (
            '(medley-node, pid=7) {"message":"tcp://h:1 has not registered us within 15 s; trying on"}\n'
            '(medley-node, pid=7) {"message":"something else"}\nnode: of somebody else\n',
            "ports open",
        ),
        ("", ""),
    ],
)
def test_an_agent_that_reaches_nobody_gave_up_or_broke_off_is_known_by_its_log(log: str, words: str) -> None:
    found = failure_in(log)
    assert (found is not None and words in found.text) == bool(words)
    assert found is None or (found.patience == ASTRAY) == (words == "ports open")


def test_a_set_up_whose_last_words_come_behind_its_end_is_given_up_with_them(home: SkyPilotHome) -> None:
    ended = "ERROR: Job 1's setup failed. Failed workers: (pid=7, returncode=1).\n"
    words = f"(setup pid=7) No space left on device\n(setup pid=7) {SET_UP_FAILED} with exit code 1\n"
    cloud, process = adapter(home, {Tail: Text(ended)})
    assert cloud.failure(NODE, START) == "", "its own lines are on their way"
    process.answers[Tail] = Text(ended + words)
    assert "No space left" in cloud.failure(NODE, START + timedelta(seconds=16))
    process.answers[Tail] = Text(ended)
    assert "returncode=1" in cloud.failure(NODE, START + timedelta(seconds=32)), "they never came"


def test_a_job_of_skypilot_stays_behind_the_last_words_of_its_set_up_until_they_are_passed_on(
    home: SkyPilotHome, tmp_path: Path
) -> None:
    for name, script in (("nvidia-smi", "exit 9"), ("sleep", "echo slept")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    set_up = SetUp(home).stage(replace(request(command=("true",)), least_driver=580)).set_up

    def printed(**environment: str) -> list[str]:
        environment |= {"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(("bash", "-c", set_up), env=environment, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert failure_in(done.stderr) is not None
        return done.stdout.splitlines()

    assert printed(SKYPILOT_TASK_ID="sky-1") == ["slept"]
    assert printed() == []


def test_a_node_that_does_not_reach_a_control_plane_that_was_away_gets_time_to(home: SkyPilotHome) -> None:
    cloud, process = adapter(home, {Tail: Text("tcp://h:1 has not registered us within 15 s; trying on\n")})
    assert cloud.failure(NODE, START) == "", "this control plane may have been away when it tried"
    assert cloud.failure(NODE, START + timedelta(seconds=16)) == ""
    assert "ports open" in cloud.failure(NODE, START + timedelta(seconds=32))
    process.answers[Tail] = Text("registered as n\n")
    assert cloud.failure(NODE, START + timedelta(seconds=48)) == ""
    process.answers[Tail] = Text("tcp://h:1 has not registered us within 15 s; trying on\n")
    assert cloud.failure(NODE, START + timedelta(seconds=64)) == "", "it is counted anew"


def test_skypilot_gets_no_secret_of_ours_and_sends_no_credentials_to_nodes(
    home: SkyPilotHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users.yaml"
    users.write_text(yaml.safe_dump({"aws": {"vpc_name": "mine"}, "gcp": {"remote_identity": "SERVICE_ACCOUNT"}}))
    monkeypatch.setenv("SKYPILOT_GLOBAL_CONFIG", str(users))
    monkeypatch.setenv("MEDLEY_DATABASE_URL", "postgresql://u:password@h/d")
    home.create()
    assert home.path.stat().st_mode & 0o077 == 0
    settings = yaml.safe_load(home.config.read_text())
    assert settings["aws"] == {"vpc_name": "mine", "remote_identity": "NO_UPLOAD"}
    assert settings["gcp"] == {"remote_identity": "SERVICE_ACCOUNT"}
    environment = home.environment(1)
    assert "password" not in str(environment)
    assert environment["SKYPILOT_GLOBAL_CONFIG"] == str(home.config)
    assert (
        SkyPilotHome(tmp_path / "elsewhere", "me").user_hash
        == home.user_hash
        != SkyPilotHome(tmp_path, "you").user_hash
    )


def test_shipped_offers_become_one_row_a_machine_and_zone_with_both_prices() -> None:
    clouds = ("aws", "gcp", "azure", "runpod")
    offers = (
        ShippedOffers([Selection(cloud, markets=(Market.ON_DEMAND, Market.SPOT)) for cloud in clouds]).fetch().offers
    )
    rows = machine_rows(offers)
    assert {row.cloud for row in rows} == {"aws", "gcp"}, "RunPod's name no region, and Azure is not rented from"
    by_key = {(row.cloud, row.region, row.zone, row.instance_type): row for row in rows}
    assert len(by_key) == len(rows)
    for offer in offers:
        if offer.cloud in ("aws", "gcp") and not offer.derived:
            row = by_key[offer.cloud, offer.region, offer.zone, offer.instance_type]
            assert offer.usd_per_hour == (row.spot_usd_per_hour if offer.market is Market.SPOT else row.usd_per_hour)
            assert row.vcpus


def test_threads_that_make_the_home_at_once_do_not_meet_each_other(tmp_path: Path) -> None:
    home = SkyPilotHome(tmp_path / "skypilot", "me")
    with ThreadPoolExecutor(8) as pool:
        for made in [pool.submit(home.create) for _ in range(64)]:
            made.result()
    assert [path.name for path in home.path.iterdir()] == [home.config.name]
