"""Linux control groups of both versions: where this process may make some, and how a limit is written.

Kernel documentation: admin-guide/cgroup-v1 (memory.rst), scheduler/sched-bwc.rst, admin-guide/cgroup-v2.rst.
"""

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from control.cloud.local.kind import LocalKind, quota_period_us

MOUNT = Path("/sys/fs/cgroup")


class Controller(StrEnum):
    """Named as the kernel's controllers."""

    CPU = "cpu"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class GroupBase:
    """A directory below which groups might be made."""

    path: Path
    version: int

    def set(self, group: Path, limit: Controller, kind: LocalKind) -> bool:
        """Write the limit; whether the kernel took it."""
        try:
            for file, value in self._values(limit, kind):
                _write(group / file, value)
        except OSError:
            return False
        if limit is Controller.MEMORY:
            # Else a node beyond its budget is slow instead of ended. Not every kernel accounts for swap.
            file, value = self._swap(kind)
            with suppress(OSError):
                _write(group / file, value)
        return True

    def cpu_cores(self, group: Path) -> float | None:
        """Return the processors that a group's quota comes to; None where it has none."""
        try:
            if self.version == 2:
                quota_us, period_us = (group / "cpu.max").read_text().split()
            else:
                quota_us, period_us = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            return int(quota_us) / int(period_us) if int(quota_us) > 0 else None
        except (OSError, ValueError):  # version 2 has `max` for none
            return None

    def _values(self, limit: Controller, kind: LocalKind) -> tuple[tuple[str, str], ...]:
        period_us = quota_period_us(kind.cpu_cores)
        quota_us = round(kind.cpu_cores * period_us)
        if self.version == 2:
            if limit is Controller.CPU:
                return (("cpu.max", f"{quota_us} {period_us}"),)
            return (("memory.max", str(kind.memory_bytes)),)
        if limit is Controller.CPU:
            return ("cpu.cfs_period_us", str(period_us)), ("cpu.cfs_quota_us", str(quota_us))
        return (("memory.limit_in_bytes", str(kind.memory_bytes)),)

    def _swap(self, kind: LocalKind) -> tuple[str, str]:
        # Version 1 counts memory and swap together, version 2 apart.
        if self.version == 2:
            return "memory.swap.max", "0"
        return "memory.memsw.limit_in_bytes", str(kind.memory_bytes)


def group_bases(limit: Controller, mount: Path = MOUNT, own: Path = Path("/proc/self/cgroup")) -> tuple[GroupBase, ...]:
    """List the groups to try, best first. A node's groups lie within ours, so that it escapes no limit that holds for
    us."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return ()  # no Linux
    for _, controllers, path in lines:
        if limit in controllers.split(","):
            ours = mount / limit / path.lstrip("/")
            # In a container, the path may be that of the host, and the mount already is ours.
            return (GroupBase(ours if ours.is_dir() else mount / limit, 1),)
    for number, _, path in lines:
        if number == "0" and (mount / "cgroup.controllers").is_file():
            ours = mount / path.lstrip("/")
            # In version 2 a group with processes, such as ours, cannot have groups with limits below it; beside it, in
            # the part of the tree that a login session delegates to its user, they can be.
            return tuple(GroupBase(base, 2) for base in (ours.parent, ours) if base.is_relative_to(mount))
    return ()


def processes(group: Path) -> tuple[int, ...]:
    """Pids in a group; none when it is not there."""
    try:
        return tuple(int(pid) for pid in (group / "cgroup.procs").read_text().split())
    except OSError:
        return ()


def _write(file: Path, value: str) -> None:
    # Not write_text: a file that is not there is a limit that this kernel does not have, never to be created.
    with file.open("r+b", buffering=0) as open_file:
        open_file.write(value.encode())
