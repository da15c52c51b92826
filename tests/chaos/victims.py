"""Processes of a site that may be killed, found by the node that they belong to."""

import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import psutil

from control.cloud.local.members import MARK_VARIABLE

PROGRAMS = ("agents.node", "agents.scheduler", "agents.stage", "agents.vllm_engine")


@dataclass(frozen=True)
class Victim:
    node: str
    program: str
    process: psutil.Process


def of_nodes(names: Iterable[str]) -> list[Victim]:
    """All processes of these nodes. Names are unique to a site: their instances' ids are hashes of its plan."""
    wanted, found = set(names), []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environment = process.environ()
            if MARK_VARIABLE in environment and environment.get("MEDLEY_NODE") in wanted:
                command = process.cmdline()
                program = next((name for name in PROGRAMS if name in command), "")
                found.append(Victim(environment["MEDLEY_NODE"], program, process))
    return found


def of_home(home: str) -> list[psutil.Process]:
    """Everything that still runs of a site: by a command line or an environment that names its directory."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and any(home in text for text in process.cmdline()):
                found.append(process)
    return found


def kill(victims: Iterable[Victim]) -> None:
    for victim in victims:
        with suppress(psutil.Error):
            victim.process.send_signal(signal.SIGKILL)
