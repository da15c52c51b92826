"""Faults of a launch, each injected through the code that meets it: found under its name, before anything is rented or
within a minute, with nothing left rented and no offer blamed that is not to blame. docs/faults.md lists them."""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agents.messages.to_hub import GpuReport
from control.cloud.errors import OwnFaultError, QuotaError, StockOutError, UnauthorisedError
from control.cloud.skypilot.failure import cloud_error
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.messages import CallFailed, Tail, Text
from control.db.database import Database
from control.executor.provision import NodePlace, provision
from control.executor.wind_down import wind_down
from control.hub.gpu_check import other_gpus
from control.lifecycle.event import Event, EventKind
from control.offers.cloud_reader import CloudReader
from control.offers.firewall import Firewall, NoNetworkError, Opening
from control.offers.live.runpod_account import runpod_quotas
from control.overlay.place import OverlayPlace
from control.preflight.planned import Planned
from templates_lib.apps.served_model import ServedModel
from templates_lib.values.clouds import CLOUDS
from templates_lib.values.cuda import TORCH_BUILD
from templates_lib.values.engines import ENGINES
from templates_lib.values.reach import Reach
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.cloud.test_engine_set_up import UV, node_with, run
from tests.control.cloud.test_skypilot_parts import NODE, adapter
from tests.control.executor.fleets import START, fleet, offer
from tests.control.lifecycle.worlds import START as NOON
from tests.control.lifecycle.worlds import requested
from tests.control.preflight.launches import (
    PUBLIC,
    REPOSITORY,
    as_pods,
    broken_config,
    broken_index,
    failing,
    gated,
    moved,
    other_config,
    quota,
    spread,
    too_large,
    walked,
    with_gpu,
    without,
    without_config,
)
from tests.control.profiles.test_measure_rented import FAULTS as PROFILE_FAULTS
from tests.http_endpoint import Said, serving
from tests.hub_server import Hub

TABLE = Path(__file__).resolve().parents[3] / "docs" / "faults.md"
MINUTE = timedelta(minutes=1)


@dataclass
class Launch:
    """What a fault is injected into."""

    made: Planned
    hub: Hub
    monkeypatch: pytest.MonkeyPatch
    cloud: FakeCloud = field(default_factory=lambda: FakeCloud("aws", {}))
    address: str = PUBLIC
    site: dict[str, Any] = field(default_factory=dict)
    opened: ExitStack = field(default_factory=ExitStack)
    """What ends with the test."""

    def served(self, **changes: Any) -> None:
        """Have the plan's model be another."""
        recipe = self.made.world.recipe
        (served,) = recipe.served
        changed: ServedModel = replace(served, **changes)
        self.made = replace(self.made, world=replace(self.made.world, recipe=replace(recipe, served=(changed,))))

    def engine(self, name: str) -> None:
        """Have the plan's instances be of another engine."""
        plan = self.made.plan
        software = ((each, each.software) for each in plan.instances)
        instances = tuple(
            replace(each, software=replace(its, engine=name)) for each, its in software if its is not None
        )
        self.made = replace(self.made, plan=replace(plan, instances=instances))

    def stored(self, family: str = "", experts: str = "", **more: Any) -> None:
        """Have its checkpoint be of another family, its experts be in another format, or more be otherwise."""
        model = self.made.world.recipe.served[0].model
        kept = model.stored
        assert kept is not None
        in_format = replace(kept.experts, dtype=experts or kept.experts.dtype)
        self.served(model=replace(model, stored=replace(kept, family=family or kept.family, experts=in_format, **more)))

    def reading(self, **readers: Any) -> None:
        self.site["readers"] = {"aws": CloudReader(**{"quotas": quota, **readers})}

    def image(self, gib: int | None) -> None:
        self.site["images"] = {"aws": "ami-0123"}
        self.reading(image_gib=lambda *_: gib)

    def weights(self, place: str) -> None:
        """Say that all weights are there; empty: nobody says where."""
        world = self.made.world
        places = dict.fromkeys(world.weights, place) if place else {}
        self.made = replace(self.made, world=replace(world, weights=places))


def patched(target: str, value: Any) -> Callable[[Launch], None]:
    return lambda launch: launch.monkeypatch.setattr(target, value)


def is_there(name: str) -> object | None:
    return None if name == "sky" else object()


def at(address: str) -> Callable[[Launch], None]:
    return lambda launch: setattr(launch, "address", address)


def asked(error: Exception) -> Callable[[Launch], None]:
    return lambda launch: launch.cloud.fail_next("list", error)


def having(limit: float) -> Callable[[Launch], None]:
    return lambda launch: launch.reading(quotas=partial(quota, limit=limit))


def through(*zones: str, reach: Reach = Reach(), mode: str = "zones") -> Callable[[Launch], None]:  # noqa: B008
    return lambda launch: setattr(launch, "made", spread(launch.made, *zones, reach=reach, mode=mode))


def on(cloud: str, gpu: str) -> Callable[[Launch], None]:
    return lambda launch: setattr(launch, "made", with_gpu(launch.made, cloud, gpu))


def old_image(launch: Launch) -> None:
    newer = replace(ENGINES["vllm"], cuda=replace(TORCH_BUILD, least_driver=590))
    launch.monkeypatch.setitem(ENGINES, "vllm", newer)


def in_hub(change: Callable[[Hub], None]) -> Callable[[Launch], None]:
    return lambda launch: change(launch.hub)


def two_regions(launch: Launch) -> None:
    launch.made = spread(launch.made, "aws/us-east-2", "aws/us-east-1")
    launch.image(45)


def shut(_: str) -> Firewall:
    """Nobody but machines of its own are let in, and SSH."""
    return Firewall("nodes", (Opening(0, 65535, "nodes"), Opening(22, 22, "0.0.0.0/0")))


def apart(_: str) -> Firewall:
    """Everybody is let in but its own machines, to which KV caches go."""
    everybody = Opening(0, 65535, "0.0.0.0/0", 1000)
    return Firewall("vpc", (everybody,), closings=(Opening(0, 65535, "10.0.0.0/8", 10),), blocks=("10.2.0.0/16",))


def overlaid(launch: Launch) -> None:
    launch.made = spread(launch.made, APART[0], APART[0], reach=Reach(overlay=True))
    launch.monkeypatch.setattr("control.overlay.interface.os.geteuid", lambda: 1000)


def no_network(_: str) -> Firewall:
    raise NoNetworkError("network vpc is not in project p")


def joined_pods(launch: Launch) -> None:
    launch.made = as_pods(launch.made)
    instances = tuple(replace(each, nodes={"L40S:1/n0": 2}) for each in launch.made.plan.instances)
    launch.made = replace(launch.made, plan=replace(launch.made.plan, instances=instances))


def few_ports(launch: Launch) -> None:
    launch.made = as_pods(launch.made)
    launch.monkeypatch.setitem(CLOUDS, "runpod", replace(CLOUDS["runpod"], published_ports=()))


def private_for_pods(launch: Launch) -> None:
    launch.made, launch.address = as_pods(launch.made), "10.1.2.3"


def spending_at_most(limit: float) -> Callable[[Launch], None]:
    """As RunPod's account says it."""

    def limited(launch: Launch) -> None:
        account = {"clientBalance": 1e3, "currentSpendPerHr": 0.0, "spendLimit": limit}
        vendor = launch.opened.enter_context(serving(lambda _: Said({"data": {"myself": account}})))
        environment = {"RUNPOD_API_BASE_URL": vendor.url, "RUNPOD_API_KEY": "key"}
        launch.made = as_pods(launch.made)
        launch.site["readers"] = {"runpod": CloudReader(partial(runpod_quotas, environment=environment))}

    return limited


APART = ("aws/us-east-2", "aws/us-east-1")
BEFORE: Mapping[str, tuple[str, Callable[[Launch], None]]] = {
    "skypilot-missing": ("tool.skypilot", patched("control.preflight.site.importlib.util.find_spec", is_there)),
    "rsync-missing": ("tool.rsync", patched("control.preflight.site.shutil.which", lambda _: None)),
    "clock-ahead": ("clock.host", in_hub(lambda hub: setattr(hub, "ahead_s", -3600.0))),
    "clock-behind": ("clock.host", in_hub(lambda hub: setattr(hub, "ahead_s", 3600.0))),
    "nothing-rents-there": ("cloud.adapter", on("lambda", "H100")),
    "credentials-expired": ("account.credentials", asked(UnauthorisedError("aws: the token has expired"))),
    "account-out-of-reach": ("account.credentials", asked(OwnFaultError("aws: names are not resolved"))),
    "quota-zero": ("account.quota", having(0.0)),
    "quota-too-small": ("account.quota", having(1.0)),
    "machine-not-in-zone": ("machine.zone", lambda launch: launch.reading(sold=lambda _: frozenset())),
    "image-not-in-region": ("image.region", lambda launch: launch.image(None)),
    "image-of-one-region": ("image.region", two_regions),
    "image-too-large": ("image.region", lambda launch: launch.image(500)),
    "gpu-too-old": ("image.driver", on("aws", "V100")),
    "gpu-of-another-vendor": ("image.driver", on("runpod", "MI300X")),
    "driver-of-image-too-old": ("image.driver", old_image),
    "address-is-loopback": ("network.address", at("127.0.0.1")),
    "address-is-unspecified": ("network.address", at("0.0.0.0")),  # noqa: S104
    "address-not-resolved": ("network.address", at("no such host.invalid")),
    "overlay-not-possible": ("overlay.host", overlaid),
    "firewall-shuts-gateways-out": ("firewall.nodes", lambda launch: launch.reading(firewall=shut)),
    "firewall-keeps-nodes-apart": ("firewall.nodes", lambda launch: launch.reading(firewall=apart)),
    "network-of-nodes-missing": ("firewall.nodes", lambda launch: launch.reading(firewall=no_network)),
    "networks-apart": ("flows.reach", through(*APART)),
    "networks-apart-in-mode-paper": ("flows.reach", through(*APART, mode="paper")),
    "gateways-elsewhere": ("gateways.reach", through(APART[0], APART[0], reach=Reach((), "gcp"))),
    "pods-hand-over": ("flows.reach", through("runpod/any", "runpod/any")),
    "pods-exchange-activations": ("flows.reach", joined_pods),
    "pods-with-too-many-executors": ("gateways.reach", few_ports),
    "pods-look-for-a-private-address": ("network.address", private_for_pods),
    "spend-limit-too-low": ("account.quota", spending_at_most(0.1)),
    "engine-not-on-cloud": ("engine.installed", lambda launch: launch.engine("vllm-stage")),
    "family-not-run": ("engine.family", lambda launch: launch.stored(family="mamba")),
    "format-not-kept": ("format.weights", lambda launch: launch.stored(experts="bitnet")),
    "attention-not-run": ("engine.attention", lambda launch: launch.stored(head_size=20)),
    "weights-nowhere": ("weights.place", lambda launch: launch.weights("")),
    "repository-gated": ("weights.repository", in_hub(gated)),
    "repository-missing": ("weights.repository", in_hub(moved)),
    "revision-missing": ("weights.repository", lambda launch: launch.weights(f"hf:{REPOSITORY}@{'0' * 40}")),
    "config-missing": ("weights.repository", in_hub(without_config)),
    "weights-file-missing": ("weights.repository", in_hub(without("b.safetensors"))),
    "index-broken": ("weights.repository", in_hub(broken_index)),
    "config-broken": ("weights.architecture", in_hub(broken_config)),
    "another-model": ("weights.architecture", in_hub(other_config)),
    "tokenizer-missing": ("tokenizer.files", in_hub(without("tokenizer.json"))),
    "tokenizer-nowhere-here": ("tokenizer.files", lambda launch: launch.weights("path:/nowhere")),
    "disk-too-small": ("disk.node", in_hub(too_large)),
}  # fmt: skip
"""Fault → the check of `medley preflight` that fails, and how it comes about."""


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("name", BEFORE)
def test_found_before_anything_is_rented(name: str, made: Planned, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    check, inject = BEFORE[name]
    launch = Launch(made, hub, monkeypatch)
    with launch.opened:
        inject(launch)
        found = walked(launch.made, launch.address, launch.cloud, **launch.site)
    assert check in failing(found)
    assert found[check].detail
    assert {call.method for call in launch.cloud.calls} <= {"list"}, "nothing is rented"


OURS: Mapping[str, tuple[str, str, str]] = {
    "package-missing": ("a package is missing", "ModuleNotFoundError", "No module named 'boto3'"),
    "names-not-resolved": ("names are not resolved", "gaierror", "[Errno -2] Name or service not known"),
    "no-network": ("there is no network", "ConnectionError", "[Errno 101] Network is unreachable"),
    "certificate-not-trusted": ("not trusted", "SSLError", "[SSL: CERTIFICATE_VERIFY_FAILED] unable to get issuer"),
    "own-disk-full": ("the disk is full", "OSError", "[Errno 28] No space left on device: '/var/lib/medley'"),
    "too-many-files": ("too many files", "OSError", "[Errno 24] Too many open files"),
    "clock-an-hour-off": ("a clock is wrong", "ClientError", "An error occurred (RequestTimeTooSkewed)"),
    "credentials-refused": ("ExpiredToken", "ClientError", "An error occurred (ExpiredToken): the token has expired"),
    "rights-missing": ("UnauthorizedOperation", "ClientError", "(UnauthorizedOperation): you may not RunInstances"),
}  # fmt: skip
"""Fault of our own machine or account → what status says, and the exception of SkyPilot that tells of it."""
SMALL, LARGE = offer(), offer(instance_type="large")
PLACE = NodePlace((SMALL, LARGE), START)


@pytest.mark.parametrize("name", OURS)
def test_a_fault_of_our_own_stops_a_launch_and_blames_no_offer(name: str, database: Database) -> None:
    said, kind, text = OURS[name]
    cloud = FakeCloud("fake", {"small": 3, "large": 3})
    medley, instance = fleet(database, cloud), requested(database)
    cloud.fail_next("create", cloud_error("aws", CallFailed(kind, text)))
    found = provision(medley.instances, medley.nodes, medley.executor, instance.id, (PLACE,))
    assert (found.instance.state, found.refused, found.rented) == ("provisioning", (), ())
    assert said in str(found.fault)
    assert cloud.list({}, NOON) == ()
    found = provision(medley.instances, medley.nodes, medley.executor, instance.id, (PLACE,))
    assert ([node.offer for node in found.instance.nodes], found.fault) == ([SMALL.key], None), "once it is mended"


REFUSED: Mapping[str, tuple[type[Exception], str]] = {
    "stock-out": (StockOutError, "InsufficientInstanceCapacity"),
    "quota-used-up": (QuotaError, "VcpuLimitExceeded"),
    "spot-price-too-low": (StockOutError, "SpotMaxPriceTooLow"),
}
"""Refusal of a cloud → what it is, and the vendor's code."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_avoids_its_offer_and_no_other(name: str, database: Database) -> None:
    kind, code = REFUSED[name]
    cloud = FakeCloud("fake", {"small": 3, "large": 3})
    medley, instance = fleet(database, cloud), requested(database)
    cloud.refuse_next("create", code)
    found = provision(medley.instances, medley.nodes, medley.executor, instance.id, (PLACE,))
    assert [(each.offer, type(each.error)) for each in found.refused] == [(SMALL.key, kind)]
    assert code in str(found.refused[0].error)
    assert [node.offer for node in found.instance.nodes] == [LARGE.key]


GOOD = {"nvidia_smi": "echo 580.95.05", "cc": ""}
NO_DEVICE = {"wg": "", "ip": "exit 1", "wireguard_go": "exit 1"}
AGENT = '{"message":"tcp://10.0.0.1:7502 has not registered us within 15 s; trying on"}'


def set_up(
    home: Path,
    without: str = "",
    damaged: bool = False,
    overlay: bool = False,
    engines: frozenset[str] = frozenset({"vllm"}),
    **programs: str,
) -> str:
    """Run the real set-up of a node with engines, in a home of its own, with these programs; return what it prints."""
    node, place = home / "node", OverlayPlace("fd00::2", "fd00::1", "key", "192.0.2.7:51820") if overlay else None
    script, environment = node_with(SkyPilotHome(home / "sky", "me"), node, engines, place, **programs)
    if without:  # what is left is a machine that has all else
        for name in ("bash", "sh", "mkdir", "sha256sum", "cut", "cat", "head", "dirname", "rm", "ln", "python3"):
            there = shutil.which(name, path=environment["PATH"])
            if there is not None and not (node / "bin" / name).exists():
                (node / "bin" / name).symlink_to(there)
        environment["PATH"] = f"{node}/bin"
    if damaged:
        (wheel,) = (node / ".medley").glob("*.whl")
        wheel.write_bytes(wheel.read_bytes()[: wheel.stat().st_size // 2])
    bash = shutil.which("bash", path=os.environ["PATH"]) or "bash"
    done = run(f"exec {bash} -e <<'SCRIPT'\n{script}\nSCRIPT", environment)
    assert done.returncode != 0
    return f"{done.stdout}{done.stderr}"


def installing(error: str) -> Callable[[Path], str]:
    return partial(set_up, uv=f"echo '{error}' >&2; exit 2", **GOOD)


def of_agent(line: str) -> Callable[[Path], str]:
    return lambda _: f"{line}\n"


UNPACKED: Mapping[str, tuple[str, Callable[[Path], str]]] = {
    "driver-missing": ("no working driver", partial(set_up, nvidia_smi="exit 9", uv=UV, cc="")),
    "driver-too-old": ("driver 550", partial(set_up, nvidia_smi="echo 550.54.15", uv=UV, cc="")),
    "compiler-missing": ("no C compiler", partial(set_up, without="cc", nvidia_smi="echo 580.95.05", uv=UV)),
    "compiler-missing-for-torch": (
        "no C compiler, which engine torch needs",
        partial(set_up, without="cc", engines=frozenset({"torch"}), nvidia_smi="echo 580.95.05", uv=UV),
    ),
    "install-fails": ("No solution found", installing("No solution found")),
    "wheel-of-another-hash": ("Hash mismatch", installing("Hash mismatch for vllm")),
    "download-breaks-off": ("connection reset", installing("connection reset by peer")),
    "node-disk-full": ("No space left", installing("No space left on device")),
    "half-the-code": ("exit code", partial(set_up, damaged=True, uv=UV, **GOOD)),
    "port-closed": ("ports open", of_agent(AGENT)),
    "overlay-not-on-node": ("makes no WireGuard device", partial(set_up, overlay=True, uv=UV, **GOOD, **NO_DEVICE)),
    "overlay-drops": ("ports open", of_agent(AGENT.replace("10.0.0.1", "[fd00::1]"))),
    "token-expired": ("the token has expired", of_agent("node: the registry refuses us: the token has expired")),
    "another-control-plane": ("the key that we expect", of_agent("node: h does not have the key that we expect")),
    "ports-not-published": (
        "no gateway reaches it",
        of_agent("node: this node's cloud has published none of the ports 7600, so that no gateway reaches it"),
    ),
    "agent-breaks-off": (
        "libcuda.so.1",
        of_agent("ImportError: libcuda.so.1\nERROR: Job 1 failed with return code list: [1]"),
    ),
    "agent-killed": ("[137]", of_agent("ERROR: Job 1 failed with return code list: [137]")),
    "address-not-of-node": ("Cannot assign", of_agent("node: [Errno 99] Cannot assign requested address")),
}  # fmt: skip
"""Fault of a node that is up → what its instance's reason says, and what puts it into the node's log."""


@pytest.mark.parametrize("name", UNPACKED)
def test_a_node_that_does_not_come_up_is_named_within_a_minute_and_given_back(
    name: str, database: Database, tmp_path: Path
) -> None:
    said, log = UNPACKED[name]
    reader, _ = adapter(SkyPilotHome(tmp_path / "skypilot", "me"), {Tail: Text(log(tmp_path))})
    looks = (NOON + timedelta(seconds=seconds) for seconds in range(0, 61, 16))
    why, when = next(((why, when) for when in looks if (why := reader.failure(NODE, when))), ("", NOON))
    assert (said in why, when - NOON <= MINUTE) == (True, True), why

    cloud = FakeCloud("fake", {"small": 3, "large": 3})
    medley, instance = fleet(database, cloud), requested(database)
    rented = provision(medley.instances, medley.nodes, medley.executor, instance.id, (PLACE,))
    cloud.failures[rented.instance.nodes[0].id] = why
    medley.recover()
    given_back(medley, cloud, instance.id, said)
    assert rented.refused == ()


OTHER: Mapping[str, tuple[str, GpuReport]] = {
    "another-gpu": ("NVIDIA L4", GpuReport("NVIDIA L4", 23034)),
    "less-gpu-memory": ("40960 MiB", GpuReport("NVIDIA A100-SXM4-40GB", 40960)),
}
"""Another machine than was rented as one A100 of 80 GB → what its instance's reason says, and its driver."""


@pytest.mark.parametrize("name", OTHER)
def test_another_machine_than_was_rented_is_given_back(name: str, database: Database) -> None:
    """That its offer is avoided then, and rightly, the keeper's tests show."""
    said, reported = OTHER[name]
    why = other_gpus("A100-80:1/n10", [reported])
    assert said in why
    cloud = FakeCloud("fake", {"small": 3, "large": 3})
    medley, instance = fleet(database, cloud), requested(database)
    provision(medley.instances, medley.nodes, medley.executor, instance.id, (PLACE,))
    medley.instances.apply(instance.id, Event(EventKind.BROKE, why), medley.executor.clock())
    given_back(medley, cloud, instance.id, said)


def given_back(medley: Any, cloud: FakeCloud, instance_id: str, said: str) -> None:
    failed = medley.instances.load(instance_id)
    assert failed.state == "failed"
    assert said in medley.instances.history(instance_id)[-1].reason
    wind_down(medley.instances, medley.executor, instance_id, "it has failed")
    assert cloud.list({}, NOON) == ()


def test_every_fault_is_listed_with_what_finds_it() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| ([^|]+) \|", TABLE.read_text(), re.M)
    listed = {name: found.strip().strip("`") for name, found in rows}
    groups = {
        "the launch": OURS,
        "the refusal": REFUSED,
        "the node's log": UNPACKED,
        "the node's driver": OTHER,
        "the run": PROFILE_FAULTS,
    }
    expected = {name: check for name, (check, _) in BEFORE.items()}
    expected |= {name: group for group, names in groups.items() for name in names}
    assert listed == expected
    assert len(listed) == len(rows) >= 40
