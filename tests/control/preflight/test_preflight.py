"""What a launch needs is looked at before it: each fault is found under its own name, and nothing else is."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from control.cli.main import app
from control.cloud.errors import OwnFaultError, RetryLaterError, UnauthorisedError
from control.cloud.port import Cloud
from control.db.database import Database
from control.offers.cloud_reader import CloudReader
from control.offers.live.readers import cloud_readers
from control.offers.live.source import NoAccessError
from control.offers.quota import QuotaAnswer
from control.preflight.drivers import of_compilers, of_drivers
from control.preflight.finding import Status
from control.preflight.networks import of_flows, of_gateways
from control.preflight.planned import Planned
from control.preflight.site import Site
from control.preflight.walk import preflight
from control.reconcile.clouds import Clouds
from control.reconcile.launch_check import LaunchCheck
from templates_lib.values.clouds import CLOUDS
from templates_lib.values.cuda import TORCH_BUILD
from templates_lib.values.engines import ENGINES
from templates_lib.values.reach import Reach
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.planning.worlds import planned, world_of
from tests.control.preflight.launches import (
    NOW,
    PEERED,
    PUBLIC,
    REPOSITORY,
    SPEC,
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
from tests.http_endpoint import Said, serving
from tests.hub_server import Hub


@pytest.mark.usefixtures("tools")
def test_a_launch_that_can_work_passes_and_fetches_no_weights(made: Planned, hub: Hub) -> None:
    found = walked(made)
    known = {name: each.status for name, each in found.items() if name != "gateways.reach"}
    assert set(known.values()) == {Status.PASS}
    order = ["tool.skypilot", "clock.host", "account.credentials", "network.address", "engine.family", "format.weights",
             "weights.repository", "tokenizer.files", "disk.node"]  # fmt: skip
    assert [name for name in found if name in order] == order
    assert "13.0 GB" in found["weights.repository"].detail
    assert not [file for file in hub.sent if file.endswith(".safetensors")]


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnauthorisedError("aws: the token has expired"), Status.FAIL),
        (OwnFaultError("aws: names are not resolved"), Status.FAIL),
        (RetryLaterError("aws: throttled", 1.0), Status.UNKNOWN),
    ],
)
def test_an_account_that_does_not_answer_says_why(made: Planned, hub: Hub, error: Exception, status: Status) -> None:
    cloud = FakeCloud("aws", {})
    cloud.fail_next("list", error)
    account = walked(made, cloud=cloud)["account.credentials"]
    assert (account.status, str(error) in account.detail) == (status, True)
    assert [call.method for call in cloud.calls] == ["list"], "it is asked, and nothing is changed"


def test_an_account_is_not_asked_without_the_tools_for_it(
    made: Planned, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.preflight.site.shutil.which", lambda _: None)
    found = walked(made)
    assert found["tool.rsync"].status is Status.FAIL
    assert found["account.credentials"].status is Status.UNKNOWN


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("beyond", "used", "status"),
    [
        (0, 0.0, Status.PASS),
        (-1, 0.0, Status.FAIL),
        (-1, None, Status.FAIL),
        (0, None, Status.PASS),
        (3, 3.0, Status.PASS),
        (3, 4.0, Status.UNKNOWN),  # it may be nodes of this plan that are in use
    ],
)
def test_a_quota_holds_for_all_nodes_of_the_plan(
    made: Planned, hub: Hub, beyond: int, used: float | None, status: Status
) -> None:
    nodes = sum(made.plan.nodes().values())
    assert nodes > 1
    read = partial(quota, limit=float(nodes + beyond), used=used)
    found = walked(made, readers={"aws": CloudReader(read)})["account.quota"]
    assert found.status is status
    assert f"takes {nodes} nodes of {nodes + beyond}" in found.detail
    assert ("a page" in found.detail) == (status is not Status.PASS), "where more is asked for"


@pytest.mark.usefixtures("tools")
def test_quotas_that_cannot_be_read_are_not_known(made: Planned, hub: Hub) -> None:
    def refused(_: object) -> QuotaAnswer:
        raise NoAccessError("AWS does not let us ask")

    half = CloudReader(lambda _: QuotaAnswer((), ("aws: half of it",)))
    for readers in ({}, {"aws": CloudReader(refused)}, {"aws": half}):
        with_unknown = list(preflight(made, Site(PUBLIC, {"aws": lambda: FakeCloud("aws", {})}, NOW, readers=readers)))
        about = [each.status for each in with_unknown if each.name == "account.quota"]
        assert set(about) == {Status.UNKNOWN}
        assert not any(each.status is Status.FAIL for each in with_unknown)


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("127.0.0.1", Status.FAIL),
        ("::1", Status.FAIL),
        ("0.0.0.0", Status.FAIL),  # noqa: S104
        ("localhost", Status.FAIL),
        ("no such host.invalid", Status.FAIL),
        ("10.1.2.3", Status.UNKNOWN),
        (PUBLIC, Status.PASS),
    ],
)
def test_nodes_of_a_cloud_must_find_the_control_plane(made: Planned, hub: Hub, address: str, status: Status) -> None:
    found = walked(made, address)
    assert found["network.address"].status is status
    assert failing(found) == ({"network.address"} if status is Status.FAIL else set())


@pytest.mark.usefixtures("tools")
def test_a_machine_of_ones_own_may_be_this_one(made: Planned, hub: Hub) -> None:
    owned = [replace(each, zone="owned/rack") for each in made.plan.instances]
    there: dict[str, Callable[[], Cloud]] = {"owned": lambda: FakeCloud("owned", {})}
    planned = replace(made, plan=replace(made.plan, instances=tuple(owned)))
    found = {each.name: each.status for each in preflight(planned, Site("127.0.0.1", there, NOW))}
    assert found["network.address"] is Status.UNKNOWN
    assert "tool.skypilot" not in found


def nobody_says(*_: object) -> None:
    raise NoAccessError("AWS does not let us ask")


@pytest.mark.usefixtures("tools")
def test_machines_must_be_sold_where_they_are_planned(made: Planned, hub: Hub) -> None:
    sold = {each.key for each in made.offers("aws")}
    assert sold
    lost = min(sold)
    for answer, status in ((sold, Status.PASS), (sold - {lost}, Status.FAIL)):
        reader = CloudReader(quota, sold=lambda _, answer=answer: frozenset(answer))
        assert walked(made, readers={"aws": reader})["machine.zone"].status is status
    (failed,) = [
        each
        for each in preflight(made, Site(PUBLIC, {"aws": lambda: FakeCloud("aws", {})}, NOW, readers={"aws": reader}))
        if each.status is Status.FAIL
    ]
    assert failed.subject.split(" in ")[0] in lost
    unknown = walked(made, readers={"aws": CloudReader(quota, sold=nobody_says)})  # type: ignore[arg-type]
    assert unknown["machine.zone"].status is Status.UNKNOWN


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("size", "status", "words"),
    [
        (45, Status.PASS, "45 GiB"),
        (None, Status.FAIL, "has no ami-0123"),
        (500, Status.FAIL, "needs a disk of 500 GiB"),
    ],
)
def test_an_image_must_be_in_the_region_and_fit_the_disk(
    made: Planned, hub: Hub, size: int | None, status: Status, words: str
) -> None:
    asked = []

    def image_gib(image: str, region: str) -> int | None:
        asked.append((image, region))
        return size

    found = walked(made, readers={"aws": CloudReader(quota, image_gib=image_gib)}, images={"aws": "ami-0123"})
    assert (found["image.region"].status, words in found["image.region"].detail) == (status, True)
    assert asked == [("ami-0123", "us-east-2")]
    reader = CloudReader(quota, image_gib=nobody_says)  # type: ignore[arg-type]
    unknown = walked(made, readers={"aws": reader}, images={"aws": "ami-0123"})
    assert unknown["image.region"].status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("cloud", "name", "image", "status"),
    [
        ("aws", "L40S", "", Status.PASS),
        ("aws", "T4", "", Status.PASS),
        ("aws", "V100", "", Status.FAIL),  # the engine's CUDA has no kernels for it
        ("aws", "V100", "ami-0123", Status.UNKNOWN),
        ("aws", "L40S", "ami-0123", Status.UNKNOWN),
        ("gcp", "H100", "", Status.PASS),
        ("runpod", "L40S", "", Status.UNKNOWN),  # the host's driver is none of the image's
        ("runpod", "MI300X", "", Status.FAIL),
    ],
)
def test_the_gpu_and_its_driver_must_do_for_the_engines_cuda(
    made: Planned, cloud: str, name: str, image: str, status: Status
) -> None:
    (found,) = of_drivers(with_gpu(made, cloud, name), cloud, image)
    assert (found.name, found.status) == ("image.driver", status)
    assert name in found.subject


@pytest.mark.parametrize(
    ("cloud", "image", "status"),
    [
        ("aws", "", Status.PASS),
        ("aws", "ami-0123", Status.UNKNOWN),
        ("gcp", "", Status.PASS),
        ("runpod", "", Status.UNKNOWN),
    ],
)
def test_an_image_must_have_a_compiler_for_engines_that_compile_kernels(
    made: Planned, cloud: str, image: str, status: Status
) -> None:
    (found,) = of_compilers(with_gpu(made, cloud, "L40S"), cloud, image)
    assert (found.name, found.status) == ("image.compiler", status)
    assert list(of_compilers(with_gpu(made, cloud, "MI300X"), cloud, image)) == []


def test_an_old_image_is_found_before_it_is_rented(made: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = replace(TORCH_BUILD, least_driver=590)
    monkeypatch.setitem(ENGINES, "vllm", replace(ENGINES["vllm"], cuda=newer))
    (found,) = of_drivers(with_gpu(made, "aws", "L4"), "aws", "")
    assert (found.status, "590" in found.detail, "580" in found.detail) == (Status.FAIL, True, True)
    monkeypatch.setitem(ENGINES, "vllm", replace(ENGINES["vllm"], cuda=None))
    (unstated,) = of_drivers(with_gpu(made, "aws", "L4"), "aws", "")
    assert unstated.status is Status.UNKNOWN


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("fault", "name", "words"),
    [
        (without_config, "weights.repository", "has no config.json"),
        (without("b.safetensors"), "weights.repository", "has no b.safetensors"),
        (without("tokenizer.json"), "tokenizer.files", "has no tokenizer.json"),
        (gated, "weights.repository", "HF_TOKEN"),
        (moved, "weights.repository", "no such repository"),
        (broken_index, "weights.repository", "cannot be read"),
        (broken_config, "weights.architecture", "cannot be read"),
        (other_config, "weights.architecture", "num_hidden_layers 36, planned as 24"),
        (too_large, "disk.node", "layers 0 to 23"),
    ],
)
def test_weights_that_nodes_could_not_load_are_found(
    made: Planned, hub: Hub, fault: Callable[[Hub], None], name: str, words: str
) -> None:
    fault(hub)
    found = walked(made)
    assert failing(found) == {name}
    assert words in found[name].detail


@pytest.mark.usefixtures("tools")
def test_of_a_hub_that_is_away_nothing_is_known(made: Planned, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    found = walked(made)
    assert failing(found) == set()
    assert found["weights.repository"].status is Status.UNKNOWN


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("line", "name"),
    [("engine: vllm-stage", "engine.installed"), ("weights: path:/nowhere", "tokenizer.files")],
)
def test_what_nodes_do_not_have_is_found(database: Database, tmp_path: Path, hub: Hub, line: str, name: str) -> None:
    world = world_of(tmp_path, SPEC.replace("    workload", f"    {line}\n    workload"))
    found = walked(Planned(world, planned(database, world)))
    assert failing(found) == {name}


@pytest.mark.usefixtures("tools")
def test_what_is_known_of_no_place_is_asked_for(made: Planned, hub: Hub) -> None:
    world = replace(made.world, weights={})
    assert failing(walked(Planned(world, made.plan))) == {"weights.place"}


@pytest.mark.usefixtures("tools")
def test_images_are_not_vouched_for(made: Planned, hub: Hub) -> None:
    found = walked(made, images={"aws": "ami-0123"})
    assert found["image.region"].status is Status.UNKNOWN
    assert failing(found) == set()


@pytest.mark.parametrize(
    ("zones", "reach", "mode", "status"),
    [
        (("aws/us-east-2", "aws/us-east-2"), Reach(), "zones", Status.PASS),
        (("gcp/us-east4", "gcp/us-central1"), Reach(), "zones", Status.PASS),
        (("aws/us-east-2", "aws/us-east-1"), Reach(), "zones", Status.FAIL),
        (("aws/us-east-2", "aws/us-east-1"), Reach(), "paper", Status.FAIL),
        (("aws/us-east-2", "aws/us-east-1"), PEERED, "zones", Status.UNKNOWN),
        (("aws/us-east-2", "gcp/us-east4"), PEERED, "zones", Status.FAIL),
        (("runpod/any", "runpod/any"), PEERED, "zones", Status.FAIL),
    ],
)
def test_kv_caches_go_only_where_nodes_reach_each_other(
    made: Planned, zones: tuple[str, str], reach: Reach, mode: str, status: Status
) -> None:
    (found,) = of_flows(spread(made, *zones, reach=reach, mode=mode))
    assert (found.name, found.status) == ("flows.reach", status)


@pytest.mark.parametrize(
    ("gateways", "status"),
    [("", Status.UNKNOWN), ("aws/us-east-1", Status.PASS), ("aws/us-east-2", Status.PASS), ("gcp", Status.FAIL)],
)
def test_gateways_must_reach_every_network_of_the_plan(made: Planned, gateways: str, status: Status) -> None:
    planned = spread(made, "aws/us-east-2", "aws/us-east-1", reach=replace(PEERED, gateways=gateways))
    found = list(of_gateways(planned))
    assert {(each.name, each.status) for each in found} == {("gateways.reach", status)}


def test_pods_are_reached_at_ports_that_are_published_as_far_as_there_are_enough(
    made: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = spread(made, "runpod/any", "runpod/any", reach=Reach(gateways="gcp"))
    (found,) = of_gateways(planned)
    assert (found.subject, found.status) == ("runpod/any", Status.PASS)
    for ports in ((), (7600,)):
        monkeypatch.setitem(CLOUDS, "runpod", replace(CLOUDS["runpod"], published_ports=ports))
        (found,) = of_gateways(planned)
        assert found.status is (Status.PASS if ports else Status.FAIL)


POD_SPEC = SPEC.replace("{requests_per_s: 20}", "{requests_per_s: 1}\n    disaggregated: false\n    aggregated: true")
POD_SPEC = POD_SPEC.replace("aws, regions: [us-east-2], gpus: [L40S, L4]", "runpod, gpus: [L40S], counts: [1]")


@pytest.mark.usefixtures("tools")
def test_a_plan_of_pods_that_would_start_passes(database: Database, tmp_path: Path, hub: Hub) -> None:
    world = world_of(tmp_path, POD_SPEC)
    made = Planned(world, planned(database, world))
    usd = made.plan.rent_usd_per_hour
    account = {"clientBalance": 9 * usd, "currentSpendPerHr": usd, "spendLimit": 2 * usd}
    listed = {"displayName": "L40S", "securePrice": 0.86, "x1": {"stockStatus": "Low"}}
    answers = {"myself": account, "gpuTypes": [listed]}
    there: dict[str, Callable[[], Cloud]] = {"runpod": lambda: FakeCloud("runpod", {})}
    with serving(
        lambda asked: Said({"data": {k: v for k, v in answers.items() if k in asked.json["query"]}})
    ) as vendor:
        readers = cloud_readers({"RUNPOD_API_BASE_URL": vendor.url, "RUNPOD_API_KEY": "key"})

        def status(address: str = PUBLIC) -> dict[str, Status]:
            found = list(preflight(made, Site(address, there, NOW, readers=readers)))
            assert found
            return {f"{each.name} {each.subject}": each.status for each in found}

        unknown = {name.partition(" ")[0] for name, each in status().items() if each is not Status.PASS}
        assert unknown == {"image.driver", "image.compiler"}, "the host and its image are what nobody knows before"
        private = {name: each for name, each in status("10.1.2.3").items() if each is Status.FAIL}
        assert private == {"network.address runpod": Status.FAIL}, "pods are in no VPC"
        for name, limit in (("spendLimit", 0.99 * usd), ("clientBalance", 0.5 * usd)):
            given, account[name] = account[name], limit
            failed = [each for each, found in status().items() if found is Status.FAIL]
            assert failed == [f"account.quota runpod/{'balance' if name == 'clientBalance' else 'spend limit'}"]
            account[name] = given
        answers["gpuTypes"] = [listed | {"displayName": "L4"}]
        assert status()["machine.zone 1x_L40S_SECURE in any"] is Status.FAIL


def test_the_command_exits_with_1_and_names_what_fails(
    database_url: str, tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # without rsync no cloud is asked
    (tmp_path / "fleet.yaml").write_text(SPEC)
    command = ["preflight", "-f", str(tmp_path / "fleet.yaml"), "--database-url", database_url]
    done = CliRunner().invoke(app, [*command, "-o", "json"])
    document = json.loads(done.stdout)
    assert (done.exit_code, document["kind"], document["passes"]) == (1, "medley/preflight", False)
    failed = {each["name"] for each in document["checks"] if each["status"] == "fail"}
    assert failed >= {"tool.rsync", "network.address"}
    assert all({"name", "subject", "status", "detail"} == each.keys() and each["detail"] for each in document["checks"])
    shown = CliRunner().invoke(app, [*command, "--address", PUBLIC])
    assert shown.exit_code == 1
    assert "tool.rsync" in shown.stdout
    assert "network.address" in shown.stdout


@pytest.mark.usefixtures("tools")
def test_what_a_loop_would_launch_is_looked_at_again_when_it_fails_or_an_hour_later(made: Planned, hub: Hub) -> None:
    cloud, passed_s = FakeCloud("aws", {}), [0.0]
    check = LaunchCheck(Clouds({"aws": lambda: cloud}), PUBLIC, {}, lambda: NOW, lambda: passed_s[0])
    cloud.fail_next("list", UnauthorisedError("aws: the token has expired"))
    assert check(made.world, made.plan) == ("aws: aws: the token has expired",)
    for at, times in ((1.0, 2), (60.0, 2), (3602.0, 3)):
        passed_s[0] = at
        assert check(made.world, made.plan) == ()
        assert len(cloud.calls) == times
    passed_s[0] = 3650.0
    more = tuple(replace(each, nodes=each.nodes + 1) for each in made.plan.offers)
    assert check(made.world, replace(made.plan, offers=more)) == ()
    assert len(cloud.calls) == 4, "quotas that do for a plan may not do for a larger one"
    hub.files = {}
    passed_s[0] = 3700.0
    elsewhere = replace(made.world, weights=dict.fromkeys(made.world.weights, f"hf:{REPOSITORY}@{'0' * 40}"))
    (why,) = check(elsewhere, made.plan)
    assert REPOSITORY in why


def test_of_a_plan_that_rents_nothing_elsewhere_nothing_is_asked(made: Planned) -> None:
    none = replace(made.plan, instances=())
    assert LaunchCheck(Clouds({}), PUBLIC, {}, lambda: NOW, lambda: 0.0)(made.world, none) == ()
    (why,) = [each for each in LaunchCheck(Clouds({}), PUBLIC, {}, lambda: NOW, lambda: 0.0)(made.world, made.plan)
              if "nothing rents there" in each]  # fmt: skip
    assert why.startswith("aws: ")


def test_a_fleet_whose_weights_nodes_could_not_fetch_is_not_applied_unless_that_is_meant(
    database_url: str, tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    (tmp_path / "fleet.yaml").write_text(SPEC)
    command = ["apply", "-f", str(tmp_path / "fleet.yaml"), "--yes", "--database-url", database_url]
    gated(hub)
    assert CliRunner().invoke(app, [*command, "--mode", "observe"]).exit_code == 0, "nothing is rented for it"
    mode = ["fleets", "mode", "chat", "auto", "--database-url", database_url]
    unready = CliRunner().invoke(app, mode)
    assert (unready.exit_code, "HF_TOKEN" in unready.output) == (1, True), unready.output
    refused = CliRunner().invoke(app, [*command, "--mode", "auto"])
    assert (refused.exit_code, "HF_TOKEN" in refused.output) == (1, True), refused.output
    assert "accepted for fleet" in CliRunner().invoke(app, [*command, "--mode", "auto", "--no-preflight"]).output
    assert CliRunner().invoke(app, [*mode, "--no-preflight"]).exit_code == 0
    hub.token = ""
    assert CliRunner().invoke(app, mode).exit_code == 0
    assert "accepted for fleet" in CliRunner().invoke(app, [*command, "--mode", "auto"]).output
