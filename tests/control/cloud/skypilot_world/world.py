"""Machines of pretended clouds: processes of this machine, recorded below one directory that several processes share.

Plain Python without SkyPilot, so that a test can look and break things from outside. In a networked world each machine
is a network namespace with an address of its own, in which nothing but SSH listens until SkyPilot comes.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import venv
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
SSHD_CONFIG = """\
ListenAddress {address}:{port}
HostKey {ssh}/host_key
PidFile none
AuthorizedKeysFile {ssh}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
MaxStartups 100
SetEnv HOME={home} OMP_NUM_THREADS=1
"""
PUBLIC = "127.0.0.2"
"""Public address of machines whose ports are published, at ports of the same number."""
RAY, WIREGUARD = "/tmp/ray_skypilot", "/run/wireguard"
"""Folders of SkyPilot's runtime, and of sockets of WireGuard's program."""
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
    ports: tuple[int, ...] = ()
    """Ports that its cloud publishes."""
    pid: int = 0
    address: str = "127.0.0.1"
    ssh_port: int = 0
    namespace: str = ""
    """Network namespace that it is; empty: it is in this machine's network."""
    state: str = RUNNING


class World:
    def __init__(self, root: Path, networked: bool = False) -> None:
        self.root = root
        self.networked = networked
        self.network = Network(zlib.crc32(str(root).encode()))

    def image(self, instance_type: str) -> Path:
        """Folder of programs that machines of a type have before others."""
        return self.root / "images" / instance_type

    @property
    def python(self) -> Path:
        """Environment whose Python has what this one has installed, but for our own code, which nodes are sent."""
        return self.root / "python"

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

    def disk(self, instance_type: str, mib: int) -> None:
        """From now on machines of the type have so much for what a node installs, in a networked world; 0: enough."""
        with self.turn():
            self._put("disks.json", {**self._get("disks.json", {}), instance_type: mib})

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

    def start(self, machine: Machine, public_key: Path, script: str = "wait") -> Machine:
        """Boot it: a home of its own, that ssh leads to, and `script` in it. In turn only."""
        home, ssh = self.home(machine.id), self.root / "ssh" / machine.id
        ssh.mkdir(parents=True, exist_ok=True)
        host_key = ssh / "host_key"
        if not host_key.exists():
            subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(host_key)), check=True)
        (ssh / "authorized_keys").write_bytes(public_key.read_bytes())
        if self.networked:
            machine = self.network.join(machine, {each.address for each in self.machines()})
        else:
            machine = replace(machine, ssh_port=_free_port())
        where = {"address": machine.address, "port": machine.ssh_port}
        (ssh / "config").write_text(SSHD_CONFIG.format(ssh=ssh, home=home, **where))
        if not self.python.exists():
            _make_environment(self.python)
        path = f"{self.image(machine.instance_type)}:{self.python / 'bin'}:{os.environ['PATH']}"
        (home / ".bashrc").write_text(f'export PATH="{path}"\n')  # a login shell forgets what it was given
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        script = f"{SSHD} -D -e -f {ssh / 'config'} & {script}"
        if self.networked:  # else these folders would be one for all machines
            own = [f"mkdir -p {RAY} {WIREGUARD} {home}/ray {home}/.medley", f"mount --bind {home}/ray {RAY}"]
            own += [f"mount -t tmpfs tmpfs {WIREGUARD}"]
            if mib := self._get("disks.json", {}).get(machine.instance_type, 0):
                own += [f"mount -t tmpfs -o size={mib}m tmpfs {home}/.medley"]
            script = " && ".join([*own, f"{{ {script}\n}}"])
        environment = {
            "PATH": path,
            "HOME": str(home),
            "SKYPILOT_NODE_IPS": machine.address,
            "OMP_NUM_THREADS": "1",
            **({"RUNPOD_PUBLIC_IP": PUBLIC} if machine.ports else {}),
            **{f"RUNPOD_TCP_PORT_{each}": str(each) for each in machine.ports},
        }
        # Nobody's child: SkyPilot ends all children of its processes between two steps of a launch.
        boot = f'setsid "$@" >> {home}/log 2>&1 < /dev/null & echo $!'
        command = ("bash", "-c", boot, "boot", *self.network.inside(machine), "bash", "-c", script)
        done = subprocess.run(command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        started = replace(machine, pid=int(done.stdout))
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
        return [_machine(json.loads(file.read_text())) for file in files]

    def stop(self, machine: Machine) -> None:
        """As a vendor that stops it: it is still there."""
        _kill(machine)
        self._put(f"machines/{machine.id}.json", asdict(replace(machine, state=STOPPED)))

    def remove(self, machine: Machine) -> None:
        """As a preemption, or a termination."""
        _kill(machine)
        self.network.leave(machine)
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


class Network:
    """Wires from this machine to the namespaces of a world."""

    def __init__(self, number: int) -> None:
        """`number`: of the world, which its addresses come from."""
        self._block = f"10.{64 + number % 64}"
        self._name = f"w{number % 0xFFFF:04x}"

    @property
    def here(self) -> str:
        """Address of this machine that all namespaces reach, while it is up (`open`)."""
        return f"{self._block}.255.1"

    @contextmanager
    def open(self) -> Iterator[str]:
        _ip("addr", "add", f"{self.here}/32", "dev", "lo")
        try:
            yield self.here
        finally:
            _ip("addr", "del", f"{self.here}/32", "dev", "lo")

    def join(self, machine: Machine, taken: set[str]) -> Machine:
        """Make its namespace, and the wire to it."""
        number = next(each for each in range(1, 255) if f"{self._block}.{each}.2" not in taken)
        name, there, here = f"{self._name}n{number}", f"{self._block}.{number}.2", f"{self._block}.{number}.1"
        joined = replace(machine, address=there, ssh_port=22, namespace=name)
        try:
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("addr", "add", f"{here}/30", "dev", name)
            _ip("link", "set", name, "up")
            _ip("-n", name, "addr", "add", f"{there}/30", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
            _ip("-n", name, "route", "add", "default", "via", here)
        except subprocess.CalledProcessError:
            self.leave(joined)
            raise
        return joined

    def inside(self, machine: Machine) -> tuple[str, ...]:
        """Beginning of commands that run in its network."""
        return ("ip", "netns", "exec", machine.namespace) if machine.namespace else ()

    def leave(self, machine: Machine) -> None:
        """End all that runs in its namespace, what starts meanwhile too, and remove it with its wire, which is there
        as long as a process of it is."""
        if not machine.namespace:
            return
        inside = ("ip", "netns", "pids", machine.namespace)
        while pids := subprocess.run(inside, capture_output=True, text=True, check=False).stdout.split():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        for what in (("link", "delete", machine.namespace), ("netns", "delete", machine.namespace)):
            subprocess.run(("ip", *what), check=False, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True, capture_output=True)


def _make_environment(folder: Path) -> None:
    """Beside what is installed here; of folders that code is installed in place from it knows nothing."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _machine(record: dict[str, Any]) -> Machine:
    return Machine(**{**record, "ports": tuple(record["ports"])})


def _kill(machine: Machine) -> None:
    """Its whole session: a node agent's children are in sessions of their own, and end with it."""
    try:
        os.killpg(machine.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    with suppress(ChildProcessError):  # another process of the server started it
        os.waitpid(machine.pid, 0)
