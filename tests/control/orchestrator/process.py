"""An orchestrator as a process of its own that ends, or loses the process of its code, at a record of its journal.

`python -m tests.control.orchestrator.process DATABASE_URL [before|after RECORD orchestrator|runner]`
`python -m tests.control.orchestrator.process DATABASE_URL chance SEED FILE`: at any records, with a letter in the file
for each that is killed.
"""

import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import psutil

from agents.end_with_parent import end_with_parent
from control.db.database import open_database
from control.db.run_journal import RunJournal
from control.db.shared_clock import shared_clock
from control.orchestrator.code_process import RUNNER, WORKER
from control.orchestrator.orchestrator import Orchestrator
from control.runs.record import RunRecord
from tests.control.orchestrator.world import QUICK

RECORDS = ("intend", "settle", "take_signal", "park", "end")


KILLED = 3
"""Exit code of an orchestrator that killed the process of a run."""


def children(module: str) -> list[psutil.Process]:
    """Processes of this one that execute a module, in the order in which they were started."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # one that has just ended
            if module in child.cmdline():
                found.append(child)
    return sorted(found, key=lambda child: child.pid)


def kill_runners() -> bool:
    """Tell whether there were any."""
    found = children(RUNNER)
    for child in found:
        with suppress(psutil.NoSuchProcess):  # it has just ended by itself
            child.kill()
    return bool(found)


@dataclass
class Fatal:
    """Kills before or after the n-th record."""

    place: str
    record: int
    victim: str
    numbers: "count[int]" = field(default_factory=lambda: count(1))
    killed: bool = False

    def around(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*args: Any, **kwargs: Any) -> Any:
            is_it = next(self.numbers) == self.record
            if is_it and self.place == "before":
                self.kill()
            result = write(*args, **kwargs)
            if is_it and self.place == "after":
                self.kill()
            return result

        return written

    def kill(self) -> None:
        if self.victim == "runner":
            self.killed = kill_runners()
        else:
            os.kill(os.getpid(), signal.SIGKILL)


ORCHESTRATOR_SHARE, RUNNER_SHARE, WORKER_SHARE = 0.03, 0.4, 0.2
"""Of records, at which one is killed."""
WORKER_OUTCOMES = 8
"""Outcomes between two kills of workers: a call whose worker dies three times has failed."""


@dataclass
class Chance:
    """Kills before or after records. At which, and whom, the seed decides, the run's file, and the records that it had
    while this orchestrator holds it: not the time."""

    seed: str
    letters: Path
    records: "defaultdict[str, count[int]]" = field(default_factory=lambda: defaultdict(count))
    outcomes: int = 0

    def around(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def written(run: RunRecord, *args: Any, **kwargs: Any) -> Any:
            place = (self.seed, Path(run.arguments["file"]).name, run.epoch, next(self.records[run.id]))
            chance = Random(repr(place))
            is_before, self.outcomes = chance.random() < 0.5, self.outcomes + (write.__name__ == "settle")
            if is_before:
                self.kill(chance)
            result = write(run, *args, **kwargs)
            if not is_before:
                self.kill(chance)
            return result

        return written

    def kill(self, chance: Random) -> None:
        drawn = chance.random()
        if drawn < ORCHESTRATOR_SHARE:
            self.note("o")
            os.kill(os.getpid(), signal.SIGKILL)
        elif drawn < ORCHESTRATOR_SHARE + RUNNER_SHARE:
            self.kill_child(chance, RUNNER, "r")
        elif drawn < ORCHESTRATOR_SHARE + RUNNER_SHARE + WORKER_SHARE and self.outcomes >= WORKER_OUTCOMES:
            self.kill_child(chance, WORKER, "w")
            self.outcomes = 0

    def kill_child(self, chance: Random, module: str, letter: str) -> None:
        found = children(module)
        if found:
            self.note(letter)
            with suppress(psutil.NoSuchProcess):  # it has just ended by itself
                chance.choice(found).kill()

    def note(self, letter: str) -> None:
        with self.letters.open("a") as file:
            file.write(letter)


def fatal_of(arguments: list[str]) -> Fatal | Chance | None:
    match arguments:
        case ["chance", seed, file]:
            return Chance(seed, Path(file))
        case [place, record, victim]:
            return Fatal(place, int(record), victim)
    return None


def main() -> None:
    end_with_parent()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    fatal = fatal_of(sys.argv[2:])
    with open_database(sys.argv[1], connections=40) as database:
        made = Orchestrator(database, QUICK, None, shared_clock(database), f"process {os.getpid()}")
        if fatal is not None:
            journal = RunJournal(database)
            dying = type("Dying", (RunJournal,), {})(database)
            for name in RECORDS:
                object.__setattr__(dying, name, fatal.around(getattr(journal, name)))
            made._journal = dying
        made.run(stopped)
    sys.exit(KILLED if isinstance(fatal, Fatal) and fatal.killed else 0)


if __name__ == "__main__":
    main()
