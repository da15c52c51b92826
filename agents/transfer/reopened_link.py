"""A link that is opened anew whenever it has broken, on the word of somebody who tells both ends."""

import logging
import threading
from collections.abc import Callable

from agents.transfer.errors import TransferError
from agents.transfer.link import LinkEnd

_log = logging.getLogger(__name__)


class ReopenedLink:
    """A thread for each connection, one of which is served at a time."""

    def __init__(self, name: str, broken: Callable[[int, str], None] | None = None) -> None:
        """`broken`: called on the connection's thread with its epoch and the reason, once it is over."""
        self._name = name
        self._broken = broken
        self._serving = threading.Lock()
        self.changed = threading.Condition()
        """Notified when another connection is to be the latest; held for a moment only."""
        self._epoch = -1
        self._end: LinkEnd | None = None

    def open(self, epoch: int, meet: Callable[[], LinkEnd], serve: Callable[[LinkEnd], None]) -> None:
        """Hangs up the connection before and makes another one. `serve`: uses it while it is the latest."""
        self._change(epoch)
        threading.Thread(target=self._run, args=(epoch, meet, serve), name=self._name, daemon=True).start()

    def close(self) -> None:
        self._change(-1)

    def is_latest(self, end: LinkEnd) -> bool:
        return self._end is end

    def _change(self, epoch: int) -> None:
        with self.changed:
            before, self._epoch, self._end = self._end, epoch, None
            self.changed.notify_all()
        if before is not None:
            before.hang_up()

    def _run(self, epoch: int, meet: Callable[[], LinkEnd], serve: Callable[[LinkEnd], None]) -> None:
        end: LinkEnd | None = None
        try:
            end = meet()
            with self._serving:  # a piece of a former connection must not come between
                with self.changed:
                    if self._epoch != epoch:
                        return
                    self._end = end
                serve(end)
        except Exception as error:
            if self._epoch == epoch:
                _log.warning("link %s broke: %s", self._name, error, exc_info=not isinstance(error, TransferError))
                if self._broken is not None:
                    self._broken(epoch, str(error))
        finally:
            if end is not None:
                end.close()
