"""An orchestrator as a process of its own that ends, or loses the process of its code, at a record of its journal.

`python -m tests.control.orchestrator.process DATABASE_URL [before|after RECORD orchestrator|runner]`
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psutil

from agents.end_with_parent import end_with_parent
from control.db.database import open_database
from control.db.run_journal import RunJournal
from control.db.shared_clock import shared_clock
from control.orchestrator.code_process import RUNNER
from control.orchestrator.orchestrator import Orchestrator
from tests.control.orchestrator.world import QUICK

RECORDS = ("intend", "settle", "take_signal", "park", "end")


KILLED = 3
"""Exit code of an orchestrator that killed the process of a run."""


def kill_runners() -> bool:
    """Tell whether there were any."""
    killed = False
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # one that has just ended
            if RUNNER in child.cmdline():
                child.kill()
                killed = True
    return killed


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


def main() -> None:
    end_with_parent()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    fatal = Fatal(sys.argv[2], int(sys.argv[3]), sys.argv[4]) if len(sys.argv) > 2 else None
    with open_database(sys.argv[1], connections=40) as database:
        made = Orchestrator(database, QUICK, None, shared_clock(database), f"process {os.getpid()}")
        if fatal is not None:
            journal = RunJournal(database)
            dying = type("Dying", (RunJournal,), {})(database)
            for name in RECORDS:
                object.__setattr__(dying, name, fatal.around(getattr(journal, name)))
            made._journal = dying
        made.run(stopped)
    sys.exit(KILLED if fatal is not None and fatal.killed else 0)


if __name__ == "__main__":
    main()
