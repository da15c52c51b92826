"""Machines of pretended clouds: processes of this machine, recorded below one directory that several processes share.

Plain Python without SkyPilot, so that a test can look and break things from outside.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
SSHD_CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {ssh}/host_key
PidFile none
AuthorizedKeysFile {ssh}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
MaxStartups 100
SetEnv HOME={home}
"""
RUNNING, STOPPED = "running", "stopped"


@dataclass(frozen=True)
class Machine:
    id: str
    cloud: str
    cluster: str
    zone: str
    instance_type: str
    disk_gib: int
    spot: bool
    labels: dict[str, str]
    pid: int = 0
    ssh_port: int = 0
    state: str = RUNNING


class World:
    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def turn(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def stock(self, cloud: str, instance_type: str, count: int) -> None:
        """From now on so many of it can exist at once."""
        with self.turn():
            self._put("stock.json", {**self._get("stock.json", {}), f"{cloud}/{instance_type}": count})

    def refuse_next(self, cloud: str, code: str, words: str) -> None:
        """The next creation there fails as the vendor says."""
        with self.turn():
            self._put("refusals.json", [*self._get("refusals.json", []), [cloud, code, words]])

    def refusal(self, cloud: str, instance_type: str) -> tuple[str, str] | None:
        """What stands against one more machine; told once. In turn only."""
        refusals = self._get("refusals.json", [])
        for index, (of_cloud, code, words) in enumerate(refusals):
            if of_cloud == cloud:
                self._put("refusals.json", refusals[:index] + refusals[index + 1 :])
                return code, words
        held = sum((m.cloud, m.instance_type) == (cloud, instance_type) for m in self.machines())
        if held >= self._get("stock.json", {}).get(f"{cloud}/{instance_type}", held + 1):
            return {
                "aws": ("InsufficientInstanceCapacity", f"We do not have sufficient {instance_type} capacity"),
                "gcp": ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", f"not enough {instance_type} resources available"),
                "runpod": (
                    "",
                    f"There are no longer any instances available with the requested specifications: {instance_type}",
                ),
            }[cloud]
        return None

    def start(self, machine: Machine, public_key: Path, script: str) -> Machine:
        """Boot it: a home of its own, that ssh leads to, and `script` in it. In turn only."""
        home, ssh = self.home(machine.id), self.root / "ssh" / machine.id
        ssh.mkdir(parents=True, exist_ok=True)
        host_key = ssh / "host_key"
        if not host_key.exists():
            subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(host_key)), check=True)
        (ssh / "authorized_keys").write_bytes(public_key.read_bytes())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (ssh / "config").write_text(SSHD_CONFIG.format(ssh=ssh, home=home, port=port))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        script = f"{SSHD} -D -e -f {ssh / 'config'} & {script}"
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "SKYPILOT_NODE_IPS": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
        }
        with (home / "log").open("ab") as log:
            process = subprocess.Popen(
                ("bash", "-c", script),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                env=environment,
                start_new_session=True,
            )
        started = replace(machine, pid=process.pid, ssh_port=port)
        self._put(f"machines/{machine.id}.json", asdict(started))
        return started

    def home(self, machine: str) -> Path:
        path = self.root / "homes" / machine
        path.mkdir(parents=True, exist_ok=True)
        return path

    def log(self, machine: str) -> str:
        return (self.home(machine) / "log").read_text()

    def machines(self) -> list[Machine]:
        files = sorted((self.root / "machines").glob("*.json"))
        return [Machine(**json.loads(file.read_text())) for file in files]

    def stop(self, machine: Machine) -> None:
        """As a vendor that stops it: it is still there."""
        _kill(machine)
        self._put(f"machines/{machine.id}.json", asdict(replace(machine, state=STOPPED)))

    def remove(self, machine: Machine) -> None:
        """As a preemption, or a termination."""
        _kill(machine)
        (self.root / "machines" / f"{machine.id}.json").unlink(missing_ok=True)

    def _get(self, name, default):
        path = self.root / name
        return json.loads(path.read_text()) if path.exists() else default

    def _put(self, name: str, value: object) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(value))
        new.replace(path)


def _kill(machine: Machine) -> None:
    """Its whole session: a node agent's children are in sessions of their own, and end with it."""
    try:
        os.killpg(machine.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    with suppress(ChildProcessError):  # another process of the server started it
        os.waitpid(machine.pid, 0)
