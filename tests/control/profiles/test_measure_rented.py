"""Nodes are rented to measure themselves, and given back whatever becomes of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from agents.messages.to_hub import GpuReport
from agents.messages.to_profiler import Done, Failed, Measured, Meeting, ToProfiler
from control.actions.measure_rented import Measurement, NotGivenBackError, end_rented, measure_rented, nodes_of
from control.cli import profile_rented
from control.cli.main import app
from control.cloud.errors import CloudError, OwnFaultError, QuotaError, RetryLaterError, StockOutError
from control.cloud.port import Cloud
from control.executor.profile_tag import is_measured
from control.planning.cost_models import cost_models_of, evidence_of
from control.planning.local_profiles import with_known_profiles
from control.planning.world import read_world
from control.profiles.comparison import compare
from control.profiles.engine_home import releases
from control.profiles.measurement_jobs import SweepError
from control.profiles.quotation import Limits, Wanted, quote
from control.profiles.rentals import Rental, Rentals
from control.profiles.store import ProfileStore
from control.profiles.subject import RentedSubject
from control.reconcile import adapters
from templates_lib.models.catalogue import load_models
from templates_lib.models.held_model import held_by
from templates_lib.values.offer import Market, Offer
from tests.control.cloud.fake_cloud import Effect
from tests.control.lifecycle.worlds import START
from tests.control.profiles.talking_cloud import L40S, PAIR, Course, TalkingCloud, machine, measured, story, whole

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: chat
models:
  - model: qwen3-32b
    engine: torch
    slo: {ttft_ms: 1500, tpot_ms: 60, keep: throughput}
    workload: azure-conversation
    demand: {requests_per_s: 20}
clouds:
  - {cloud: aws, regions: [us-east-2], gpus: [L40S], counts: [1]}
solver: {n_max: 1}
"""
OWNER = "me"
L4 = GpuReport("NVIDIA L4", 23034)
PRICE = 1.861
BUSY = RetryLaterError("aws: busy", 1e4)
RELEASE = next((each.partition(" ")[2] for each in releases("torch") if each.startswith("medley-serving ")), "0")


def quiet(what: str, done: int, total: int) -> None:
    del what, done, total


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "profiles")


def measurement(folder: Path, *, nodes: int = 1, device: str = "cuda", zones: int = 2, gpus: int = 1) -> Measurement:
    (folder / "fleet.yaml").write_text(SPEC.replace("counts: [1]", f"counts: [{gpus}]"))
    quotes = read_world(folder / "fleet.yaml").quotes
    config = next(iter(quotes.configs))
    sold = [
        Offer("aws", "us-east-2", f"us-east-2{zone}", "g6e.xlarge", config, Market.ON_DEMAND, PRICE + number)
        for number, zone in enumerate("abc"[:zones])
    ]
    wanted = Wanted("aws", config, Market.ON_DEMAND, nodes=nodes)
    quotation = quote(replace(quotes, offers=tuple(sold)), wanted, Limits(50.0, 30.0))
    return Measurement(quotation, held_by("torch", load_models()["qwen3-32b"]), "torch", "hf:Qwen/Qwen3-32B", device)


def nothing_is_left(cloud: TalkingCloud, store: ProfileStore) -> bool:
    return cloud.list({}, START) == () and store.rentals.all() == ()


def test_a_node_is_rented_measured_and_given_back_and_plans_rest_on_what_it_said(
    tmp_path: Path, store: ProfileStore
) -> None:
    seen: list[tuple[int, int]] = []
    cloud, course = TalkingCloud([story(RELEASE)]), Course()

    def looks(_: int) -> None:
        (node,) = cloud.list({}, START)
        assert node.tags["medley-owner"] == OWNER
        assert is_measured(node.tags, course.now)
        (record,) = store.rentals.all()
        assert (record.rental.node, record.rental.cloud) == (node.name, "aws")

    course.then = looks
    asked = measurement(tmp_path)
    stored = measure_rented(asked, cloud, OWNER, store, course.pace, lambda _, done, total: seen.append((done, total)))
    assert nothing_is_left(cloud, store)
    assert course.waits > 2
    assert seen == sorted(seen)
    assert store.get(stored.profile.subject) == stored
    assert isinstance(stored.rented, RentedSubject)
    assert stored.rented.fingerprint == stored.profile.subject
    assert stored.profile.errors.median < 0.01

    world = with_known_profiles(read_world(tmp_path / "fleet.yaml"), tmp_path)
    assert {profile.subject for profile in world.recipe.profiles} == {stored.profile.subject}
    assert evidence_of(world.recipe) == "measured", "under every network class"


@pytest.mark.parametrize("said", [{"release": "0.0.0-other"}, {"device": "cpu", "gpus": ()}])
def test_plans_do_not_rest_on_another_release_nor_on_a_trial_without_a_gpu(
    tmp_path: Path, store: ProfileStore, said: dict[str, object]
) -> None:
    what = measurement(tmp_path, device=str(said.get("device", "cuda")))
    about = machine(**{"release": RELEASE, **said})  # type: ignore[arg-type]
    stored = measure_rented(what, TalkingCloud([whole(about, *measured())]), OWNER, store, Course().pace, quiet)
    assert store.get(stored.profile.subject) == stored
    world = with_known_profiles(read_world(tmp_path / "fleet.yaml"), tmp_path)
    assert world.recipe.profiles == ()


def test_plans_rest_on_a_node_of_several_gpus_and_on_what_its_replicas_would_be(
    tmp_path: Path, store: ProfileStore
) -> None:
    for count in (1, 4):
        asked = measurement(tmp_path, gpus=count)
        told = whole(machine(gpus=(L40S,) * count, release=RELEASE), *measured())
        stored = measure_rented(asked, TalkingCloud([told]), OWNER, store, Course().pace, quiet)
        assert stored.profile.tensor_parallel == count
    recipe = with_known_profiles(read_world(tmp_path / "fleet.yaml"), tmp_path).recipe
    assert {node.gpu_count for node in recipe.nodes} == {4}
    assert evidence_of(recipe) == "measured"
    times, model = cost_models_of(recipe)["torch"], recipe.served[0].model
    for node in recipe.nodes:
        assert {(each.tp, each.dp) for each in times.measured_splits(model, node)} == {(4, 1), (1, 4)}


def test_a_trial_on_a_node_of_several_gpus_is_compared_by_what_it_measured(tmp_path: Path, store: ProfileStore) -> None:
    asked = measurement(tmp_path, device="cpu", gpus=4)
    told = whole(machine("cpu", gpus=(), release=RELEASE), *measured())
    stored = measure_rented(asked, TalkingCloud([told]), OWNER, store, Course().pace, quiet)
    assert all(each.ratio != 1.0 for each in compare(stored, asked.model)), "the estimate stands for what was measured"


def test_the_other_node_of_a_pair_is_rented_once_the_first_waits_and_told_where(
    tmp_path: Path, store: ProfileStore
) -> None:
    first = whole(machine(release=RELEASE), Meeting("10.0.0.7", 4711), *measured(pair=True))
    cloud, course = TalkingCloud([first, whole(machine())]), Course()
    asked: dict[str, tuple[str, ...]] = {}
    course.then = lambda _: asked.update(
        {node.name: cloud.request(node.name).command for node in cloud.list({}, START)}
    )
    stored = measure_rented(measurement(tmp_path, nodes=2), cloud, OWNER, store, course.pace, quiet)
    assert nothing_is_left(cloud, store)
    assert stored.profile.pair == PAIR
    assert len(asked) == 2
    one, other = asked.values()
    assert one[-2:] == ("--pair", "first")
    assert other[-4:] == ("--pair", "second", "--meet", "10.0.0.7:4711")


Does = Callable[[TalkingCloud, Course], None]


def waits(cloud: TalkingCloud, course: Course, then: Callable[[str], None]) -> None:
    """Do it to the node at the second look."""
    course.then = lambda waits: then(cloud.list({}, START)[0].name) if waits == 2 else None


def refuses(*errors: CloudError, effect: Effect = Effect.NONE) -> Does:
    def does(cloud: TalkingCloud, _: Course) -> None:
        for error in errors:
            cloud.fail_next("create", error, effect)

    return does


def never_up(cloud: TalkingCloud, course: Course) -> None:
    """Its launch goes on for ever, as far as one waits."""
    cloud.hangs = True
    course.hangs = lambda: not cloud.given_up.is_set()


def comes_late(cloud: TalkingCloud, course: Course) -> None:
    """The answer to its launch is lost, and it comes when it was given up."""
    cloud.fail_next("create", BUSY, Effect.LATER)
    course.then = lambda _: cloud.settle()


def does_not_come_up(cloud: TalkingCloud, course: Course) -> None:
    waits(cloud, course, lambda name: cloud.failures.update({name: "no working driver of NVIDIA"}))


def damaged(said: Iterator[ToProfiler]) -> list[ToProfiler]:
    """The last line of the engine says something else."""
    lines = list(said)
    last = max(n for n, each in enumerate(lines) if isinstance(each, Measured) and each.part == "engine")
    return [*lines[:last], Measured("engine", msgspec.Raw(b"[7]")), *lines[last + 1 :]]


NO_OFFER = (StockOutError("aws: no more"), QuotaError("aws: quota of 0"))
FAULTS: dict[str, tuple[list[ToProfiler], Does | None, str]] = {
    "profile-never-up": (story(), never_up, "was not up in the time that it had"),
    "profile-comes-late": (story(), comes_late, "was not up in time"),
    "profile-launch-unknown": (story(), refuses(BUSY, effect=Effect.DONE), "aws: busy"),
    "profile-offers-refused": (story(), refuses(*NO_OFFER), "not measured: aws: quota of 0"),
    "profile-own-fault": (story(), refuses(OwnFaultError("aws: no network")), "not measured: aws: no network"),
    "profile-set-up-fails": ([], does_not_come_up, "no working driver of NVIDIA"),
    "profile-taken-away": (
        story(),
        lambda cloud, course: waits(cloud, course, cloud.preempt),
        "does not list it any more",
    ),
    "profile-broken": (story(), lambda cloud, course: waits(cloud, course, cloud.crash), "lists it as broken"),
    "profile-silent": ([], None, "in the time that it had"),
    "profile-stops-half-way": ([machine(), *list(measured())[:60]], None, "in the time that it had"),
    "profile-part-fails": (
        [machine(), *list(measured())[:60], Failed("engine", "out of memory")],
        None,
        "out of memory",
    ),
    "profile-log-cut-off": ([machine(), *measured(), Done(7)], None, "in the time that it had"),
    "profile-part-missing": (whole(machine(), *list(measured())[:-2]), None, "pipeline: nothing of it came"),
    "profile-part-short": (whole(machine(), *list(measured())[:-1]), None, "pipeline: 0 lines of 1 came"),
    "profile-no-gpu": (
        whole(machine(gpus=()), Failed("machine", "torch can use 0 GPUs")),
        None,
        "torch can use 0 GPUs",
    ),
    "profile-measures-processor": (whole(machine("cpu"), *measured()), None, "and cuda was to be measured"),
    "profile-another-gpu": (whole(machine(gpus=(L4,)), *measured()), None, "NVIDIA L4"),
    "profile-answer-damaged": (whole(machine(), *damaged(measured())), None, "is no HandOffCost"),
}
"""Name → what the node prints, what happens, and what is said of it."""


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_fails_is_named_and_nothing_is_left_rented_or_stored(
    name: str, tmp_path: Path, store: ProfileStore
) -> None:
    says, does, words = FAULTS[name]
    cloud, course = TalkingCloud([says] * 3), Course()
    if does is not None:
        does(cloud, course)
    with pytest.raises(SweepError, match=words):
        measure_rented(measurement(tmp_path), cloud, OWNER, store, course.pace, quiet)
    cloud.settle()  # nothing comes up later
    assert nothing_is_left(cloud, store)
    assert store.all() == ()
    assert course.passed <= timedelta(minutes=31)


def test_where_an_offer_is_refused_the_next_is_asked(tmp_path: Path, store: ProfileStore) -> None:
    cloud = TalkingCloud([[], story()])
    cloud.fail_next("create", StockOutError("aws: no more g6e.xlarge in us-east-2a"))
    stored = measure_rented(measurement(tmp_path), cloud, OWNER, store, Course().pace, quiet)
    assert stored.profile.config.startswith("L40S:1")
    assert nothing_is_left(cloud, store)


@pytest.mark.parametrize("error", [KeyboardInterrupt("SIGTERM"), ZeroDivisionError("a bug")])
def test_an_interrupted_run_gives_back_what_it_has_rented(
    tmp_path: Path, store: ProfileStore, error: BaseException
) -> None:
    cloud, course = TalkingCloud([story()]), Course()

    def stop(_: str) -> None:
        raise error

    waits(cloud, course, stop)
    with pytest.raises(type(error)):
        measure_rented(measurement(tmp_path), cloud, OWNER, store, course.pace, quiet)
    assert nothing_is_left(cloud, store)
    assert store.all() == ()


def test_what_a_cloud_does_not_end_stays_on_record_and_is_ended_later(tmp_path: Path, store: ProfileStore) -> None:
    cloud = TalkingCloud([story()])
    for _ in range(1000):
        cloud.fail_next("terminate", RetryLaterError("aws: busy", 5.0))
    with pytest.raises(NotGivenBackError, match="medley profile end"):
        measure_rented(measurement(tmp_path), cloud, OWNER, store, Course().pace, quiet)
    assert [record.held for record in store.rentals.all()] == [False]
    assert len(store.all()) == 1, "it was measured before"

    cloud._faults["terminate"].clear()
    nodes = nodes_of(cloud, store.rentals, OWNER, Course().pace)
    for left in store.rentals.take_left():
        nodes.take_over(left)
    end_rented(nodes)
    assert nothing_is_left(cloud, store)


RENTS = """import sys, time
from pathlib import Path
from control.profiles.rentals import Rental, Rentals
held = Rentals(Path(sys.argv[1])).open(Rental("medley-profile-1-0", "aws", "z", "t", "L40S:1/n10", 1.0, "", ""))
print("rented", flush=True)
time.sleep(600)
"""


def test_what_a_killed_run_has_rented_is_found_and_what_a_living_one_has_is_left_alone(tmp_path: Path) -> None:
    rentals = Rentals(tmp_path)
    with subprocess.Popen([sys.executable, "-c", RENTS, str(tmp_path)], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline()
        assert [record.held for record in rentals.all()] == [True]
        assert rentals.take_left() == ()
        run.send_signal(signal.SIGKILL)
    assert [record.held for record in rentals.all()] == [False]
    assert rentals.take_left(cloud="gcp") == ()
    (left,) = rentals.take_left(node="medley-profile-1-0")
    assert rentals.take_left() == (), "another process is ending it"
    left.remove()
    assert rentals.all() == ()


@pytest.fixture
def medley(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Runs the command with a cloud in memory."""
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    monkeypatch.setenv("MEDLEY_DATABASE_URL", database_url)
    (tmp_path / "fleet.yaml").write_text(SPEC)

    def run(cloud: TalkingCloud, *arguments: str, answer: str = "") -> tuple[int, str, str]:
        @contextmanager
        def made(*_: object) -> Iterator[Mapping[str, Callable[[], Cloud]]]:
            yield {"aws": lambda: cloud}

        monkeypatch.setattr(adapters, "makers", made)
        done = CliRunner().invoke(app, ["profile", *arguments], input=answer)
        return done.exit_code, done.stdout, done.stderr

    return run


def test_the_command_says_what_it_may_cost_asks_and_prints_what_it_stored(
    medley: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    asked = ("run", "-f", str(tmp_path / "fleet.yaml"), "--cloud", "aws", "--config", "L40S:1")
    cloud = TalkingCloud([story(RELEASE)], at_once=10_000)
    code, _, said = medley(cloud, *asked, "--max-usd", "0.5", "--yes")
    assert code == 1
    assert "--max-usd" in said
    code, _, said = medley(cloud, *asked, answer="n\n")
    assert code == 1
    assert "at most" in said
    assert not [call for call in cloud.calls if call.method == "create"]

    code, printed, said = medley(cloud, *asked, "--yes", "-o", "json")
    assert code == 0, said
    (document,) = json.loads(printed)
    assert document["config"].startswith("L40S:1")
    assert document["device"] == "cuda"
    assert cloud.list({}, START) == ()


def test_the_command_lists_and_ends_what_a_killed_run_has_left(
    medley: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    rental = Rental("medley-profile-1-0", "aws", "us-east-2a", "g6e.xlarge", "L40S:1/n10", PRICE, "now", "then")
    cloud, rentals = TalkingCloud([]), ProfileStore(tmp_path / "profiles").rentals
    held = rentals.open(rental)
    (listed,) = json.loads(medley(cloud, "rented", "-o", "json")[1])
    assert (listed["rental"]["node"], listed["held"]) == (rental.node, True)
    assert "goes on" in medley(cloud, "end")[1]
    held.leave()
    assert medley(cloud, "end")[0] == 0
    assert [call.subject for call in cloud.calls if call.method == "terminate"] == [rental.node]
    assert rentals.all() == ()


def test_the_first_signal_interrupts_and_later_ones_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    ended = []
    with pytest.raises(KeyboardInterrupt), profile_rented.ended_politely() as pace:  # noqa: PT012
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            pace.ending()
            os.kill(os.getpid(), signal.SIGTERM)
            ended.append(True)
    assert ended
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert "giving back" in capsys.readouterr().err


def test_a_node_that_is_listed_late_is_waited_for(tmp_path: Path, store: ProfileStore) -> None:
    """A cloud may be slow to list what it has just created."""
    cloud, course = TalkingCloud([story()], at_once=1), Course()
    listed, said = cloud.list, cloud.printed
    cloud.list = lambda tags, now: () if course.waits < 3 else listed(tags, now)  # type: ignore[method-assign]
    cloud.printed = lambda name, lines: "" if course.waits < 3 else said(name, lines)  # type: ignore[method-assign]
    cloud._at_once = 10_000
    measure_rented(measurement(tmp_path), cloud, OWNER, store, course.pace, quiet)
    assert nothing_is_left(cloud, store)
