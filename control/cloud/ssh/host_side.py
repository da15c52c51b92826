"""Program that runs on a host for as long as one request takes: its source is sent over SSH, and needs Linux and Python
3.8.

A request is JSON on standard input, the answer JSON on standard output. At most one node lives on a host. Its record,
below ~/.medley/own, is written before it starts and removed when nothing of it runs any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    Record = dict[str, Any]

MARK = "MEDLEY_OWN_NODE"
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "XDG_CACHE_HOME")
GRACE_S = 2.0
PATIENCE_S = 10.0
POLL_S = 0.02
MAX_PRINTED = 1 << 18


class Host:
    def __init__(self) -> None:
        self.user_home = os.path.expanduser("~")
        self.home = os.path.join(self.user_home, ".medley", "own")
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        self.path = os.path.join(self.home, "record.json")

    def turn(self) -> IO[bytes]:
        """Hold the record alone, among all control planes; the lock ends with the file that is returned."""
        lock = open(os.path.join(self.home, "lock"), "ab")  # noqa: SIM115 - the caller's block closes it
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def read(self) -> Any:
        try:
            with open(self.path, encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def write(self, record: Record) -> None:
        """Whole or not at all, and on disk when this returns."""
        new = self.path + ".new"
        with open(new, "w", encoding="utf-8") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)

    def seen(self) -> Any:
        """The record as it is now, with its state; None, and no trace of it, when nothing of it runs. In turn only."""
        record = self.read()
        if record is None:
            return None
        living = members(record)
        if not living:
            os.unlink(self.path)
            # What its agent kept for itself, such as its private key.
            shutil.rmtree(os.path.join(self.user_home, ".medley", "node", record["name"]), ignore_errors=True)
            return None
        if record.get("leader") is None:
            # Killed between start and record: its oldest process is the one that was started.
            born = [found for found in map(identity, living) if found is not None]
            record["leader"] = min(born, key=lambda found: found["ticks"], default=None)
            self.write(record)
        state = "running" if is_leader(record) else "broken"
        return dict(record, state="terminating" if record.get("ending") else state)

    def create(self, request: Record) -> Record:
        with self.turn():
            there = self.seen()
            if there is not None:
                return {"node": there}
            command = request["command"]
            program = shutil.which(command[0]) if command else None
            if program is None:
                return {"refused": f"there is no program {' '.join(command[:1])!r}"}
            record = dict(request["record"], leader=None, ending=False, mark=f"{self.home}:{request['record']['name']}")
            self.write(record)
            with open(os.path.join(self.home, "log.name"), "w", encoding="utf-8") as file:
                file.write(record["name"])
            environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
            environment.update(request["environment"])
            environment[MARK] = record["mark"]
            descriptor = os.open(os.path.join(self.home, "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as log:
                child = subprocess.Popen(
                    [program, *command[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.user_home,
                    env=environment,
                    start_new_session=True,
                )
            record["leader"] = identity(child.pid)
            self.write(record)
            # One that has ended already is a zombie of ours, and gone with us.
            return {"node": self.seen() or dict(record, state="broken")}

    def look(self) -> Record:
        with self.turn():
            return {"node": self.seen()}

    def printed(self, request: Record) -> Record:
        """The end of what the host's last node has printed, if it has this name: also once the node has ended."""
        with self.turn(), contextlib.suppress(FileNotFoundError):
            with open(os.path.join(self.home, "log.name"), encoding="utf-8") as file:
                name = file.read()
            if name == request["name"]:
                with open(os.path.join(self.home, "log"), "rb") as log:
                    log.seek(max(0, log.seek(0, os.SEEK_END) - MAX_PRINTED))
                    return {"printed": log.read().decode("utf-8", "replace")}
        return {"printed": ""}

    def terminate(self, request: Record) -> Record:
        with self.turn():
            record = self.seen()
            if record is None or record["name"] != request["name"]:
                return {"gone": True}
            record["ending"] = True
            self.write(record)
        # Not in turn: others need not wait for a node that takes its time. To do this twice at once does no harm.
        gone = end(record)
        with self.turn():
            left = self.read()
            if gone and left is not None and left["name"] == request["name"]:
                self.seen()
        return {"gone": gone}


def boot() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def stat(pid: int) -> tuple[str, int, int, int] | None:
    """(state, parent, session, start in ticks since the boot) of a process; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1]), int(fields[3]), int(fields[19])


def identity(pid: int) -> Record | None:
    found = stat(pid)
    return None if found is None else {"pid": pid, "ticks": found[3], "boot": boot()}


def is_leader(record: Record) -> bool:
    leader = record.get("leader")
    if leader is None:
        return False
    found = stat(leader["pid"])
    return found is not None and found[0] not in "ZX" and (found[3], boot()) == (leader["ticks"], leader["boot"])


def members(record: Record) -> set[int]:
    """Pids of all living processes of a node: by the mark in their environment, by its leader's session while that
    lives, or as a child of a member. What has left all three on purpose is not found."""
    mark = f"{MARK}={record['mark']}".encode()
    session = record["leader"]["pid"] if is_leader(record) else None
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        pid, about = int(entry), stat(int(entry))
        if about is None or about[0] in "ZX":
            continue
        parents[pid] = about[1]
        if about[2] == session or mark in environment_of(pid):
            found.add(pid)
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def environment_of(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []  # it has ended, or is of a user whose processes are none of ours


def end(record: Record) -> bool:
    """Ask the leader to end, wait, then kill whatever is left until nothing is; whether that was achieved."""
    known = {(pid, born) for pid in members(record) if (born := birth(pid)) is not None}
    give_up = time.monotonic() + GRACE_S
    if is_leader(record):
        send(record["leader"]["pid"], signal.SIGTERM)
        while is_leader(record) and time.monotonic() < give_up:
            time.sleep(POLL_S)
    give_up = time.monotonic() + PATIENCE_S
    while True:
        known |= {(pid, born) for pid in members(record) if (born := birth(pid)) is not None}
        # Some may be members only as long as their parents live; a pid counts only with its birth.
        known = {(pid, born) for pid, born in known if birth(pid) == born}
        if not known or time.monotonic() > give_up:
            return not known
        for pid, _ in known:
            send(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def birth(pid: int) -> int | None:
    """Return when a living process began, in ticks since the boot."""
    found = stat(pid)
    return None if found is None or found[0] in "ZX" else found[3]


def send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def main() -> None:
    request, host = json.load(sys.stdin), Host()
    if request["do"] == "create":
        answer = host.create(request)
    elif request["do"] == "terminate":
        answer = host.terminate(request)
    elif request["do"] == "printed":
        answer = host.printed(request)
    else:
        answer = host.look()
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
