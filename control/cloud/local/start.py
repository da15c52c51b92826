"""Start a node's command: in a session and in control groups of its own, with nothing of ours that it need not know."""

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from control.cloud.local.confinement import Confinement
from control.cloud.local.members import MARK_VARIABLE
from control.cloud.local.processors import on_processor
from control.cloud.node import NodeRequest
from templates_lib.models.hub_weights import ENDPOINT_VARIABLE, HOME_VARIABLE, TOKEN_VARIABLE
from templates_lib.values.engines import ENGINES

_INHERITED = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"),
    *(ENDPOINT_VARIABLE, HOME_VARIABLE, TOKEN_VARIABLE),
    *(kind.python_variable for kind in ENGINES.values() if kind.python_variable),
)
"""The control plane's own environment may hold the database's password and the keys of clouds."""
_ENTER = """
limit=$1 groups=$2; shift 2
[ "$limit" = 0 ] || ulimit -d "$limit" || exit 125
while [ "$groups" -gt 0 ]; do echo $$ > "$1/cgroup.procs" || exit 125; shift; groups=$((groups - 1)); done
exec "$@"
"""


def node_environment(request: NodeRequest, confinement: Confinement, mark: str) -> dict[str, str]:
    """Return a node's environment, secrets included. Its share is stated for an engine that paces itself."""
    threads = str(confinement.threads)
    return {
        **{name: os.environ[name] for name in _INHERITED if name in os.environ},
        **request.environment,
        **{name: secret.reveal() for name, secret in request.secrets.items()},
        MARK_VARIABLE: mark,
        "MEDLEY_NODE_THREADS": threads,
        "MEDLEY_NODE_PACE": repr(confinement.pace),
        "MEDLEY_NODE_MEMORY_MIB": str(confinement.memory_mib),
        "OMP_NUM_THREADS": threads,  # read once, when a numeric library is loaded
        # Which cache lines collide depends on where small pages lie, for as long as a process lives: of six engines
        # alike, measured in turns, steps differed by 5 %, each time by the same; in huge pages by nothing.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }


def start(
    command: tuple[str, ...], environment: Mapping[str, str], confinement: Confinement, home: Path, log: Path
) -> subprocess.Popen[bytes]:
    """The node's first process, which is in its groups and on its processor before the command begins. Raises
    OSError."""
    log.parent.mkdir(exist_ok=True)
    groups = confinement.groups
    enter = ("/bin/sh", "-c", _ENTER, "medley-node", str(confinement.data_limit_kib), str(len(groups)), *groups)
    with (
        os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output,
        on_processor(confinement.processor),
    ):
        child = subprocess.Popen(
            (*enter, *command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home,
            env=dict(environment),
            start_new_session=True,
        )
    for group in groups:
        # It enters by itself, some moments later: the next node that is made here is to see it there.
        with suppress(OSError):
            (Path(group) / "cgroup.procs").write_text(str(child.pid))
    return child
