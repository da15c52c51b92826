"""Small nodes keep to a processor each, as long as their shares fit on it."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.cloud.local.cgroup import GroupBase
from control.cloud.local.confinement import Enforcement
from control.cloud.local.kind import LocalKind
from control.cloud.local.processors import Tenant, on_processor, processor_for, tenants_of
from tests.control.cloud.harness import LocalHarness, request
from tests.control.db.processes import wait_until
from tests.control.lifecycle.worlds import START

SHARES = st.floats(0.05, 2.5)


@given(shares=st.lists(SHARES, max_size=12), count=st.integers(0, 4))
def test_no_processor_is_promised_more_than_once_and_the_least_used_is_taken(shares: list[float], count: int) -> None:
    usable = frozenset(range(count))
    tenants: list[Tenant] = []
    for share in shares:
        used = {p: sum(t.cpu_cores / len(t.processors) for t in tenants if p in t.processors) for p in usable}
        chosen = processor_for(share, usable, tenants)
        if chosen is None:
            assert all(of + share > 1 for of in used.values())
            tenants.append(Tenant(share, usable)) if usable else None
        else:
            assert share <= 1 + 1e-6
            assert used[chosen] + share <= 1 + 1e-6
            assert used[chosen] == min(used.values())
            tenants.append(Tenant(share, frozenset({chosen})))


def test_shares_that_add_up_to_one_fit() -> None:
    assert processor_for(0.3, {0}, [Tenant(0.1, frozenset({0}))] * 7) == 0
    assert processor_for(0.31, {0}, [Tenant(0.1, frozenset({0}))] * 7) is None


@pytest.mark.parametrize("version", [1, 2])
def test_tenants_are_read_from_groups_that_somebody_is_in(tmp_path: Path, version: int) -> None:
    def group(name: str, quota: str, pids: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text(pids)
        if version == 2:
            (tmp_path / name / "cpu.max").write_text(f"{'max' if quota == '-1' else quota} 10000\n")
        else:
            (tmp_path / name / "cpu.cfs_quota_us").write_text(quota)
            (tmp_path / name / "cpu.cfs_period_us").write_text("10000")

    group("medley-one", "2500", f"{os.getpid()}\n")
    group("medley-empty", "2500", "")
    group("medley-free", "-1", f"{os.getpid()}\n")
    group("other", "2500", f"{os.getpid()}\n")
    found = list(tenants_of(GroupBase(tmp_path, version), "medley-"))
    assert found == [Tenant(0.25, frozenset(os.sched_getaffinity(0)))]


def test_only_what_starts_meanwhile_keeps_to_the_processor() -> None:
    before = os.sched_getaffinity(0)
    one = min(before)
    with on_processor(one):
        assert os.sched_getaffinity(0) == {one}
    assert os.sched_getaffinity(0) == before
    with on_processor(None):
        assert os.sched_getaffinity(0) == before


def test_a_node_starts_on_its_processor_and_one_of_several_has_them_all(local: LocalHarness) -> None:
    tells = (
        sys.executable,
        "-c",
        "import os, signal; print(sorted(os.sched_getaffinity(0)), flush=True); signal.pause()",
    )
    cloud = local.cloud()
    cloud.offer([LocalKind("tiny", 0.01, 128, 1), LocalKind("several", 2.0, 128, 1)])
    every = sorted(os.sched_getaffinity(0))
    for name in ("tiny", "several"):
        cloud.create(request(name, name, command=tells), START)
        confinement = cloud.confinement(name)
        assert confinement is not None
        if confinement.cpu is not Enforcement.CGROUP:
            pytest.skip("this system enforces no share, and a node that paces itself may use any processor")
        wait_until(lambda name=name: cloud.log(name).read_text().endswith("\n"))  # type: ignore[misc]
        expected = every if confinement.processor is None else [confinement.processor]
        assert cloud.log(name).read_text() == f"{expected}\n"
    assert confinement.processor is None
