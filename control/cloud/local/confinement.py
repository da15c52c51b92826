"""Limits of a node's share: control groups where this machine lets us, else the next best means."""

import hashlib
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from control.cloud.local.cgroup import Controller, group_bases
from control.cloud.local.kind import LocalKind
from control.cloud.local.processors import processor_for, tenants_of, usable_processors

_RMDIR_PATIENCE_S = 5.0
_PREFIX = "medley-"
_ENTER = 'echo $$ > "$1/cgroup.procs"'


class Enforcement(StrEnum):
    """Means that enforce a limit."""

    CGROUP = "cgroup"
    """The kernel, over all processes of the node together."""
    RLIMIT = "rlimit"
    """The kernel, over the private memory of each process: an allocation beyond it fails."""
    PACED = "paced"
    """The node itself: its engine computes for a share of the time (`pace`)."""
    NONE = "none"
    """Nothing on this system; the node is told its budget."""


@dataclass(frozen=True, slots=True)
class Confinement:
    cpu: Enforcement
    memory: Enforcement
    pace: float
    """Share of the time in which `threads` may compute, where nobody else enforces it: 1 under a control group."""
    threads: int
    memory_mib: int
    groups: tuple[str, ...]
    """Directories of its control groups, to be entered before its command starts."""
    processor: int | None = None
    """The one that it keeps to; None: it may use all of them."""

    @property
    def data_limit_kib(self) -> int:
        """Limit for `ulimit -d`; 0: none."""
        return self.memory_mib * 1024 if self.memory is Enforcement.RLIMIT else 0


def confine(kind: LocalKind, name: str, owner: str) -> Confinement:
    """Make what holds a node of `kind`. Whatever this machine does not allow is done by the next best means."""
    label = f"{_PREFIX}{hashlib.blake2b(owner.encode(), digest_size=4).hexdigest()}-{name}"
    groups = {limit: str(group) for limit in Controller if (group := _group(limit, kind, label)) is not None}
    cpu = Enforcement.CGROUP if Controller.CPU in groups else Enforcement.PACED
    # Other systems accept RLIMIT_DATA and do not enforce it for memory that is mapped.
    plain = Enforcement.RLIMIT if sys.platform == "linux" else Enforcement.NONE
    return Confinement(
        cpu=cpu,
        memory=Enforcement.CGROUP if Controller.MEMORY in groups else plain,
        pace=1.0 if cpu is Enforcement.CGROUP else kind.cpu_cores / kind.threads,
        threads=kind.threads,
        memory_mib=kind.memory_mib,
        groups=tuple(dict.fromkeys(groups.values())),
        # What paces itself loses nothing between processors.
        processor=_processor(kind) if cpu is Enforcement.CGROUP else None,
    )


def _processor(kind: LocalKind) -> int | None:
    tenants = (tenant for base in group_bases(Controller.CPU) for tenant in tenants_of(base, _PREFIX))
    return processor_for(kind.cpu_cores, usable_processors(), tenants)


def release(confinement: Confinement) -> None:
    """Remove the control groups of a node that has no process left. An empty group that stays does no harm."""
    give_up = time.monotonic() + _RMDIR_PATIENCE_S
    for group in map(Path, confinement.groups):
        # The kernel takes a moment to let go of processes that have just died.
        while not _removed(group) and time.monotonic() < give_up:
            time.sleep(0.01)


def _group(limit: Controller, kind: LocalKind, label: str) -> Path | None:
    for base in group_bases(limit):
        group = base.path / label
        made_before = group.is_dir()  # in version 2, one group has both limits
        with suppress(OSError):
            group.mkdir(exist_ok=True)
        if base.set(group, limit, kind) and _can_enter(group):
            return group
        if not made_before:
            _removed(group)
    return None


def _removed(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


def _can_enter(group: Path) -> bool:
    # Tried out: whether a process may move depends on who owns which directory above both groups.
    return subprocess.run(("/bin/sh", "-c", _ENTER, "sh", str(group)), capture_output=True, check=False).returncode == 0
