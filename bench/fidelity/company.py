"""Keeps every processor busy with what nodes do, behind everything else.

How fast a processor computes depends on what its neighbours do meanwhile: they share caches and memory, and where two
are one core's threads, the core. A node of this machine takes 28 to 38 % less time for a step when it is alone. In a
cloud a node is a machine of its own; here it is as fast at 30 % of load as it was in the sweep only if the machine is
as busy.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from control.cloud.local.cgroup import Controller, group_bases
from control.cloud.local.confinement import Confinement, Enforcement, release

_FOR_EVER_S = 1e6


@contextmanager
def company(weights: str, dtype: str) -> Iterator[None]:
    """Run engines on `weights` (named as in `templates_lib.models.weights_place`) that get only what nobody else wants.

    A control group of their own says so: a kernel that groups processes by session weighs niceness within one only.

    Raises RuntimeError where there can be no such group.
    """
    work = (sys.executable, "-m", "agents.profile", "--out", os.devnull, "--dtype", dtype)
    command = (*work, "engine", "--weights", weights, "--company-s", str(_FOR_EVER_S))
    with ExitStack() as held:
        group = _idle_group()
        held.callback(release, Confinement(Enforcement.CGROUP, Enforcement.NONE, 1.0, 1, 0, (str(group),)))
        for _ in range(os.cpu_count() or 1):
            process = held.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            held.callback(process.kill)
            (group / "cgroup.procs").write_text(str(process.pid))
            os.setpriority(os.PRIO_PROCESS, process.pid, 19)  # so that it is counted as standing back
        yield


def _idle_group() -> Path:
    for base in group_bases(Controller.CPU):
        group = base.path / f"medley-company-{os.getpid()}"
        with suppress(OSError):
            group.mkdir(exist_ok=True)
            (group / "cpu.idle").write_text("1")
            return group
    raise RuntimeError("no control group for what keeps the machine busy: run this as root, on Linux 5.15 or later")
