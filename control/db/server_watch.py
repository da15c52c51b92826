"""Keeps the embedded server up while somebody serves from it: one that was killed is started again.

Every process that stays (`medley up`, `reconcile`, `api`, `alerts watch`) watches, and one of them acts: who holds
`keeper.lock`, which the kernel frees for the next when its holder ends. A start takes its turn like any other
(`control.db.embedded`), so that it never meets a command that starts or stops the server too. Data that is gone is
told, never made anew: an empty database would have all that runs taken for orphans.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from control.back_off import BackOff
from control.db.cluster import PostgresCluster
from control.db.embedded import turn
from control.db.errors import EmbeddedServerError
from control.file_lock import try_lock, unlock

_LOOK_S = 0.5
_STABLE_S = 60.0
"""A server that died sooner after its start is not started again at once, but later each time."""


@contextmanager
def kept_up(home: Path, say: Callable[[str], None], restarted: Callable[[str], None]) -> Iterator[None]:
    """Keep the server running for as long as the block; the caller is a user of the server meanwhile. `say` gets a line
    on what stands in the way, and `restarted`, once the server answers again, what had happened; both in another
    thread."""
    ended = threading.Event()
    watch = _Watch(PostgresCluster.of(home), ended, say, restarted)
    thread = threading.Thread(target=watch.run, name="database watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()  # a start that is under way is finished, so that it is stopped with the rest


class _Watch:
    def __init__(
        self,
        cluster: PostgresCluster,
        ended: threading.Event,
        say: Callable[[str], None],
        restarted: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._ended = ended
        self._say = say
        self._restarted = restarted
        self._back_off = BackOff()
        self._trouble = ""

    def run(self) -> None:
        with (self._cluster.home / "keeper.lock").open("ab") as lock:
            while not self._ended.wait(_LOOK_S):
                if try_lock(lock):
                    try:
                        self._keep()
                    finally:
                        unlock(lock)

    def _keep(self) -> None:
        """Watch until the end."""
        stable_s = time.monotonic()
        while not self._ended.wait(_LOOK_S):
            if self._cluster.is_up():
                if time.monotonic() >= stable_s:
                    self._back_off.worked("start")
                continue
            if self._ended.wait(self._back_off.wait_s("start", time.monotonic())):
                return
            self._back_off.failed("start", time.monotonic())
            if self._revive():
                stable_s = time.monotonic() + _STABLE_S

    def _revive(self) -> bool:
        began_s = time.monotonic()
        try:
            self._cluster.check_data()
            with turn(self._cluster.home):
                if self._ended.is_set():
                    return False
                self._cluster.ensure_running()
        except EmbeddedServerError as error:
            if str(error) != self._trouble:  # said once, however often it is tried
                self._trouble = str(error)
                self._say(str(error))
            return False
        self._trouble = ""
        self._restarted(
            f"the embedded PostgreSQL had ended; it was started again within {time.monotonic() - began_s:.1f} s"
        )
        return True
