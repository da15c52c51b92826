"""Control groups of both versions, on a directory that stands for the kernel's."""

from pathlib import Path

import pytest

from control.cloud.local.cgroup import Controller, GroupBase, group_bases, processes
from control.cloud.local.kind import LocalKind

HALF = LocalKind("half", 0.5, 256, 1)


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


def own(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "own"
    file.write_text(text)
    return file


def test_in_version_1_groups_are_made_within_ours(tmp_path: Path, mount: Path) -> None:
    (mount / "memory" / "jobs" / "7").mkdir(parents=True)
    (mount / "cpu").mkdir()
    lines = own(tmp_path, "4:memory:/jobs/7\n2:cpu,cpuacct:/not/visible/here\n0::/\n")
    assert group_bases(Controller.MEMORY, mount, lines) == (GroupBase(mount / "memory" / "jobs" / "7", 1),)
    assert group_bases(Controller.CPU, mount, lines) == (GroupBase(mount / "cpu", 1),)


def test_in_version_2_groups_are_made_beside_ours_first(tmp_path: Path, mount: Path) -> None:
    mount.mkdir()
    (mount / "cgroup.controllers").write_text("cpu memory\n")
    lines = own(tmp_path, "0::/user.slice/app.slice/terminal.scope\n")
    app = mount / "user.slice" / "app.slice"
    assert group_bases(Controller.CPU, mount, lines) == (GroupBase(app, 2), GroupBase(app / "terminal.scope", 2))
    assert group_bases(Controller.CPU, mount, own(tmp_path, "0::/\n")) == (GroupBase(mount, 2),)


def test_where_there_are_none_there_is_nowhere_to_try(tmp_path: Path, mount: Path) -> None:
    assert group_bases(Controller.CPU, mount, tmp_path / "no-such-file") == ()
    assert group_bases(Controller.CPU, mount, own(tmp_path, "0::/\n")) == ()


@pytest.mark.parametrize(
    ("version", "limit", "written"),
    [
        (1, Controller.CPU, {"cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "5000"}),
        (1, Controller.MEMORY, {"memory.limit_in_bytes": "268435456", "memory.memsw.limit_in_bytes": "268435456"}),
        (2, Controller.CPU, {"cpu.max": "5000 10000"}),
        (2, Controller.MEMORY, {"memory.max": "268435456", "memory.swap.max": "0"}),
    ],
)
def test_limits_are_written_as_the_kernel_reads_them(
    tmp_path: Path, version: int, limit: Controller, written: dict[str, str]
) -> None:
    for file in written:
        (tmp_path / file).write_text("")
    assert GroupBase(tmp_path.parent, version).set(tmp_path, limit, HALF)
    assert {file: (tmp_path / file).read_text() for file in written} == written


def test_a_limit_that_the_kernel_does_not_have_is_not_taken_and_makes_no_file(tmp_path: Path) -> None:
    assert not GroupBase(tmp_path.parent, 2).set(tmp_path, Controller.CPU, HALF)
    assert list(tmp_path.iterdir()) == []


def test_a_group_that_is_gone_has_no_processes(tmp_path: Path) -> None:
    assert processes(tmp_path / "gone") == ()
    (tmp_path / "cgroup.procs").write_text("12\n7\n")
    assert processes(tmp_path) == (12, 7)
