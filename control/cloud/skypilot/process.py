"""The other end of the pipe to the process that holds SkyPilot's SDK."""

import itertools
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import IO

import msgspec

from control.cloud.errors import RetryLaterError
from control.cloud.skypilot.home import SkyPilotHome
from control.cloud.skypilot.messages import Call, Numbered, NumberedReply, Reply, line
from control.cloud.skypilot.server import ApiServer

_AGAIN_S = 10.0
_END_S = 10.0


class SdkProcess:
    """Process that runs SkyPilot's SDK. Thread-safe. The first call starts it, it ends with us, and it is started again
    when it has died."""

    def __init__(self, home: SkyPilotHome) -> None:
        self.home = home
        self._server = ApiServer(home)
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._port = 0
        """Of the server that the process asks."""
        self._waiting: dict[int, tuple[subprocess.Popen[bytes], Future[Reply]]] = {}
        """Number of a call → whom it was sent to, and its answer."""
        self._numbers = itertools.count(1)

    def call(self, call: Call, timeout_s: float) -> Reply:
        """Raises RetryLaterError where no answer comes in time: what was asked for may happen yet; OwnFaultError."""
        port = self._server.ensure()
        number, answer = next(self._numbers), Future[Reply]()
        with self._turn:
            child = self._running(port)
            self._waiting[number] = child, answer
            try:
                _pipe(child.stdin).write(line(Numbered(number, call)))
                _pipe(child.stdin).flush()
            except OSError as error:
                del self._waiting[number]
                raise RetryLaterError(f"SkyPilot's SDK has ended: see {self.home.sdk_log}", _AGAIN_S) from error
        try:
            return answer.result(timeout_s)
        except FutureTimeoutError:
            self._waiting.pop(number, None)
            what = type(call).__name__.lower()
            raise RetryLaterError(f"SkyPilot has not answered to {what} within {timeout_s:g} s", _AGAIN_S) from None

    def close(self) -> None:
        """End the process. What it has asked SkyPilot's server for goes on there."""
        with self._turn:
            self._end()

    def _running(self, port: int) -> subprocess.Popen[bytes]:
        """Return the child for this port, started if need be. Callers hold `_turn`."""
        if self._child is not None and self._child.poll() is None and self._port == port:
            return self._child
        self._end()  # it asks a server that is not there any more
        # Nobody but us starts a server: one of its own making would not be in our environment.
        environment = {**self.home.environment(port), "SKYPILOT_DISABLE_LOCAL_API_SERVER": "1"}
        with os.fdopen(os.open(self.home.sdk_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            child = subprocess.Popen(
                (sys.executable, "-m", "control.cloud.skypilot.sdk"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,  # a Ctrl-C is for us; it ends with its input
            )
        self._child, self._port = child, port
        threading.Thread(target=self._read, args=(child,), name="skypilot-sdk", daemon=True).start()
        return child

    def _end(self) -> None:
        """End the child. Callers hold `_turn`."""
        child, self._child = self._child, None
        if child is not None:
            with suppress(OSError):
                _pipe(child.stdin).close()
            try:
                child.wait(_END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _read(self, child: subprocess.Popen[bytes]) -> None:
        for text in _pipe(child.stdout):
            answer = msgspec.json.decode(text, type=NumberedReply)
            if (waiting := self._waiting.pop(answer.number, None)) is not None:
                waiting[1].set_result(answer.reply)
        child.wait()
        with self._turn:
            lost = [number for number, (whom, _) in self._waiting.items() if whom is child]
            answers = [self._waiting.pop(number)[1] for number in lost]
        for waiting_for in answers:
            waiting_for.set_exception(RetryLaterError(f"SkyPilot's SDK has ended: see {self.home.sdk_log}", _AGAIN_S))


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    if end is None:
        raise TypeError("the process was started without pipes")
    return end
