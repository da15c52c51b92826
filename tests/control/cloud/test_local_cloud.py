"""The local cloud keeps no more and no less than its nodes: whole trees, true identities, no secret on disk."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from control.cloud.errors import GiveUpError, RetryLaterError
from control.cloud.local.cloud import LocalCloud
from control.cloud.local.confinement import Enforcement
from control.cloud.local.kind import LocalKind
from control.cloud.local.record import Leader, RecordStore
from control.cloud.node import CloudNodeState
from tests.control.cloud.harness import KINDS, LocalHarness, request
from tests.control.db.processes import line, lives, start, wait_until
from tests.control.lifecycle.worlds import START

NAME = "medley-i1-0-0"
HIDING_CHILD = "env -i setsid sh -c 'echo $$; exec sleep 600' & wait"
"""Neither the mark nor the session of its parent; in a control group it is found also after its parent's end."""
STUBBORN_FAMILY = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(3):
    if os.fork() == 0:
        if number:
            os.setsid()
        if number == 2 and os.fork():
            os._exit(0)  # its child is an orphan in a session of its own: a daemon
        print(os.getpid(), flush=True)
        signal.pause()
signal.pause()
"""


@pytest.fixture
def users_home() -> Iterator[Path]:
    """Of somebody without root's rights; pytest's own directories are closed to them."""
    home = Path(tempfile.mkdtemp(prefix="medley-user-"))
    if os.geteuid() == 0:
        os.chown(home, 65534, 65534)
    yield home
    shutil.rmtree(home)


def family(harness: LocalHarness, name: str = NAME) -> list[int]:
    """Pids of the descendants of a node that runs STUBBORN_FAMILY."""
    log = harness.cloud().log(name)
    wait_until(lambda: len(log.read_text().split()) == 3)
    return [int(pid) for pid in log.read_text().split()]


def test_terminating_ends_the_whole_tree_however_it_resists(local: LocalHarness) -> None:
    local.cloud().create(request(command=(sys.executable, "-c", STUBBORN_FAMILY)), START)
    pids = [*family(local), local.leader(NAME)]
    assert all(lives(pid) for pid in pids)
    local.cloud().terminate(NAME, START)
    assert not any(lives(pid) for pid in pids)


def test_what_a_dead_leader_leaves_is_found_and_ended(local: LocalHarness) -> None:
    local.cloud().create(request(command=(sys.executable, "-c", STUBBORN_FAMILY)), START)
    pids = family(local)
    local.vanish(NAME)
    assert all(lives(pid) for pid in pids)
    assert [node.state for node in local.cloud().list({}, START)] == [CloudNodeState.BROKEN]
    local.cloud().terminate(NAME, START)
    assert not any(lives(pid) for pid in pids)


def test_a_node_outlives_a_killed_control_plane_and_is_found_by_the_next(local: LocalHarness) -> None:
    code = (
        "import sys, pathlib\nfrom tests.control.cloud.harness import *\n"
        "print(LocalHarness(pathlib.Path(sys.argv[1])).cloud().create(request(), START).provider_id, flush=True)\n"
        "sys.stdin.read()"
    )
    control_plane = start(code, str(local.home))
    provider_id = line(control_plane)
    control_plane.kill()
    control_plane.communicate()
    assert [node.provider_id for node in local.cloud().list({}, START)] == [provider_id]
    local.cloud().terminate(NAME, START)
    assert local.cloud().list({}, START) == ()


def test_another_process_with_the_same_pid_is_not_mistaken_for_a_node(local: LocalHarness) -> None:
    local.cloud().create(request(), START)
    records = RecordStore(local.home)
    record = records.get(NAME)
    assert record is not None
    local.vanish(NAME)
    with subprocess.Popen(("sleep", "600"), start_new_session=True) as innocent:
        long_ago = psutil.Process(innocent.pid).create_time() - 3600
        records.put(replace(record, leader=Leader(innocent.pid, long_ago)))
        local.cloud().terminate(NAME, START)
        assert local.cloud().list({}, START) == ()
        assert innocent.poll() is None
        innocent.kill()


def test_a_clock_that_was_set_does_not_make_a_node_a_stranger(local: LocalHarness) -> None:
    local.cloud().create(request(), START)
    records = RecordStore(local.home)
    record = records.get(NAME)
    assert record is not None
    assert record.leader is not None
    records.put(replace(record, leader=replace(record.leader, started_at=record.leader.started_at - 3600)))
    assert [node.state for node in local.cloud().list({}, START)] == [CloudNodeState.RUNNING]
    local.cloud().terminate(NAME, START)
    assert not lives(record.leader.pid)


def test_a_crash_between_record_and_start_leaves_nothing(local: LocalHarness) -> None:
    local.cloud().create(request(), START)
    records = RecordStore(local.home)
    record = records.get(NAME)
    assert record is not None
    local.cloud().terminate(NAME, START)
    records.put(replace(record, leader=None))
    assert local.cloud().list({}, START) == ()
    assert records.all() == ()


def test_a_crash_between_start_and_record_leaves_a_node_that_is_found(local: LocalHarness) -> None:
    node = local.cloud().create(request(), START)
    records = RecordStore(local.home)
    record = records.get(NAME)
    assert record is not None
    records.put(replace(record, leader=None))
    assert local.cloud().create(request(), START) == node
    assert records.get(NAME) == record


def test_a_crash_while_terminating_is_finished_by_the_next_call(local: LocalHarness) -> None:
    local.cloud().create(request(), START)
    records = RecordStore(local.home)
    record = records.get(NAME)
    assert record is not None
    records.put(replace(record, ending=True))
    assert [node.state for node in local.cloud().list({}, START)] == [CloudNodeState.TERMINATING]
    with pytest.raises(RetryLaterError, match="is being terminated"):
        local.cloud().create(request(), START)
    local.cloud().terminate(NAME, START)
    assert local.cloud().list({}, START) == ()


def test_a_damaged_record_is_named(local: LocalHarness) -> None:
    local.cloud().create(request(), START)
    file = local.home / "nodes" / f"{NAME}.json"
    good = file.read_bytes()
    file.write_bytes(good[:20])
    with pytest.raises(GiveUpError, match=r"medley-i1-0-0\.json is damaged"):
        local.cloud().list({}, START)
    file.write_bytes(good)


def test_a_home_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GiveUpError, match=r"the local cloud cannot use .*file/home"):
        LocalCloud(tmp_path / "file" / "home", KINDS).list({}, START)


def test_a_command_that_is_not_there_is_refused_and_leaves_nothing(local: LocalHarness) -> None:
    for command in (("no-such-program",), ()):
        with pytest.raises(GiveUpError, match="no program"):
            local.cloud().create(request(command=command), START)
    assert local.cloud().list({}, START) == ()


def test_a_node_gets_its_secrets_and_none_of_ours_and_none_is_on_disk(
    local: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_DATABASE_URL", "postgresql://u:password-of-ours@h/d")
    local.cloud().create(request(secret="token-of-the-node"), START)  # noqa: S106
    node = psutil.Process(local.leader(NAME))
    environment = node.environ()
    assert environment["MEDLEY_BOOTSTRAP_TOKEN"] == "token-of-the-node"  # noqa: S105
    assert environment["MEDLEY_SERVER"] == "tcp://127.0.0.1:1"
    assert "password-of-ours" not in str(environment)
    assert "token-of-the-node" not in " ".join(node.cmdline())
    files = [path.read_bytes() for path in local.home.rglob("*") if path.is_file()]
    assert len(files) == 3  # lock, record, log
    assert not any(b"token-of-the-node" in content for content in files)


def test_two_local_clouds_do_not_see_each_other(local: LocalHarness, tmp_path: Path) -> None:
    other = LocalCloud(tmp_path / "other", KINDS)
    other.create(request(), START)
    local.cloud().create(request(), START)
    other.terminate(NAME, START)
    assert len(local.cloud().list({}, START)) == 1
    assert other.list({}, START) == ()


def test_a_budget_of_memory_is_not_exceeded(local: LocalHarness) -> None:
    greedy = (
        "import signal\nprint('before', flush=True)\nhog = b'x' * 2**29\nprint('after', flush=True)\nsignal.pause()"
    )
    cloud = local.cloud()
    cloud.create(request(command=(sys.executable, "-c", greedy)), START)
    confinement = cloud.confinement(NAME)
    assert confinement is not None
    if confinement.memory is Enforcement.NONE:
        pytest.skip("this system enforces no budget")
    wait_until(lambda: cloud.list({}, START) == ())
    said = cloud.log(NAME).read_text()
    assert said.startswith("before")
    assert "after" not in said


def test_a_share_of_the_processor_is_enforced_or_stated(local: LocalHarness) -> None:
    cloud = local.cloud()
    cloud.create(request(command=(sys.executable, "-c", "while True: pass")), START)
    confinement = cloud.confinement(NAME)
    assert confinement is not None
    environment = psutil.Process(local.leader(NAME)).environ()
    assert environment["OMP_NUM_THREADS"] == environment["MEDLEY_NODE_THREADS"] == "1"
    assert environment["MEDLEY_NODE_MEMORY_MIB"] == "128"
    assert environment["MEDLEY_NODE_PACE"] == ("1.0" if confinement.cpu is Enforcement.CGROUP else "0.5")
    if confinement.cpu is Enforcement.CGROUP:
        (group, *_) = map(Path, confinement.groups)
        wait_until(lambda: "nr_throttled 0\n" not in (group / "cpu.stat").read_text())
        cloud.terminate(NAME, START)
        assert not any(Path(group).exists() for group in confinement.groups)


@pytest.mark.parametrize("kind", [("k", 0.0, 1, 1), ("k", 1.0, 0, 1), ("k", 1.0, 1, -1), ("k", float("nan"), 1, 1)])
def test_an_impossible_kind_is_refused(kind: tuple[str, float, int, int]) -> None:
    with pytest.raises(ValueError, match="'k' needs"):
        LocalKind(*kind)


def test_an_ordinary_user_has_the_same_cloud_paced_and_limited_by_process(users_home: Path) -> None:
    assert as_ordinary_user(lambda: life_of_a_node(users_home)) == "paced rlimit 0.5"


def test_even_without_control_groups_a_child_that_hides_is_ended_with_its_parent(users_home: Path) -> None:
    def work() -> str:
        cloud = LocalCloud(users_home, KINDS)
        cloud.create(request(command=("/bin/sh", "-c", HIDING_CHILD)), START)
        wait_until(lambda: cloud.log(NAME).read_text().endswith("\n"))
        pid = int(cloud.log(NAME).read_text())
        assert lives(pid)
        cloud.terminate(NAME, START)
        assert not lives(pid)
        return "ended"

    assert as_ordinary_user(work) == "ended"


def test_a_node_is_on_record_before_it_starts(local: LocalHarness) -> None:
    local.cloud().create(request(command=("/bin/ls", f"nodes/{NAME}.json")), START)
    log = local.cloud().log(NAME)
    wait_until(lambda: log.read_text().endswith("\n"))
    assert log.read_text() == f"nodes/{NAME}.json\n"


def life_of_a_node(home: Path) -> str:
    cloud = LocalCloud(home, KINDS)
    node = cloud.create(request(command=("/bin/sleep", "600")), START)
    assert cloud.list({}, START) == (node,)
    confinement = cloud.confinement(NAME)
    assert confinement is not None
    pid = int(node.provider_id.split("-")[1])
    soft, _ = psutil.Process(pid).rlimit(psutil.RLIMIT_DATA)
    assert soft == 128 * 2**20
    cloud.terminate(NAME, START)
    assert cloud.list({}, START) == ()
    assert not lives(pid)
    return f"{confinement.cpu} {confinement.memory} {confinement.pace}"


def as_ordinary_user(work: Callable[[], str]) -> str:
    """What `work` returns in a process without root's rights; the error's text when it raises."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            said = work()
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
