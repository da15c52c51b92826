"""The processes of a local node: found by what they cannot lose by accident, ended until none is left."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from control.cloud.local.cgroup import processes
from control.cloud.local.record import Leader

MARK_VARIABLE = "MEDLEY_LOCAL_NODE"
"""Variable that all processes of a node inherit: which node of which local cloud they are of."""
_SAME_START_S = 2.0
"""The system states a start by its clock, which is set by a little now and then. No pid comes round in two seconds."""
_POLL_S = 0.01


def is_leader(leader: Leader, mark: str) -> bool:
    """Tell whether that very process lives.

    Its start tells it from a later process of the same pid. Where the system's clock was set meanwhile, as on a virtual
    machine that slept, starts seem to differ: then the mark decides.
    """
    try:
        process = psutil.Process(leader.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        same_start = abs(process.create_time() - leader.started_at) <= _SAME_START_S
        return same_start or (os.getsid(leader.pid) == leader.pid and process.environ().get(MARK_VARIABLE) == mark)
    except (psutil.Error, OSError):
        return False


def identified(pid: int) -> Leader | None:
    """The living process with that pid, as it can be recognised later."""
    with suppress(psutil.Error):
        return Leader(pid, psutil.Process(pid).create_time())
    return None


def members(mark: str, leader: Leader | None, groups: Iterable[str]) -> list[psutil.Process]:
    """All living processes of a node, whichever of them, its leader too, have died.

    A process is a member by the mark in its environment, by a control group, by the leader's session, or as a child of
    a member. What has left all four on purpose is not found.
    """
    grouped = {pid for group in groups for pid in processes(Path(group))}
    # A session's number means something only while its leader lives: a later process may have it.
    session = leader.pid if leader is not None and is_leader(leader, mark) else None
    found = {p.pid: p for p in psutil.process_iter() if _belongs(p, mark, grouped, session)}
    for member in tuple(found.values()):
        with suppress(psutil.Error):
            found.update((child.pid, child) for child in member.children(recursive=True) if _lives(child))
    return list(found.values())


def marked_leader(mark: str) -> Leader | None:
    """The process that a node was started as, where its pid was not recorded any more: its oldest session's first."""
    leaders = []
    for process in members(mark, None, ()):
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == process.pid:
                leaders.append(Leader(process.pid, process.create_time()))
    return min(leaders, key=lambda leader: leader.started_at, default=None)


def end(mark: str, leader: Leader | None, groups: tuple[str, ...], grace_s: float, patience_s: float) -> bool:
    """Ask the leader to end, wait `grace_s`, then kill whatever is left until nothing is; whether that was achieved.

    `patience_s` bounds the killing: a process that waits for a broken disk dies only when it answers.
    """
    # Some may be members only as long as their parents live.
    known = {process.pid: process for process in members(mark, leader, groups)}
    if leader is not None and is_leader(leader, mark):
        with suppress(psutil.Error):
            psutil.Process(leader.pid).terminate()
        give_up = time.monotonic() + grace_s
        while is_leader(leader, mark) and time.monotonic() < give_up:
            time.sleep(_POLL_S)
    give_up = time.monotonic() + patience_s
    while True:
        known.update((process.pid, process) for process in members(mark, leader, groups))
        known = {pid: process for pid, process in known.items() if _lives(process)}
        if not known or time.monotonic() > give_up:
            return not known
        for process in known.values():
            with suppress(psutil.Error):
                process.kill()  # psutil makes sure that the pid is still that process
        time.sleep(_POLL_S)


def _belongs(process: psutil.Process, mark: str, grouped: set[int], session: int | None) -> bool:
    try:
        if not _lives(process):
            return False
        if process.pid in grouped or (session is not None and os.getsid(process.pid) == session):
            return True
        return process.environ().get(MARK_VARIABLE) == mark
    except (psutil.Error, OSError):
        return False  # it has ended, or is of a user whose processes are none of ours


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
