"""One process that a node agent runs: its output goes where the agent's goes, and its last words are kept."""

import asyncio
import contextlib
import errno
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from agents.messages.to_hub import OUT_OF_MEMORY

_LINES = 8
_LINE_BYTES = 1 << 16
_PREFIX = re.compile(r"^\S+ \S+ (DEBUG|INFO|WARNING|ERROR|CRITICAL) \S+ ")
"""Of a line of a log."""
_SECRETS = ("MEDLEY_BOOTSTRAP_TOKEN",)


class Child:
    """Process of a node. Made by `start`. `ended` is called on the loop, once, with why it ended."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, ended: Callable[[str], None]) -> None:
        self.name = name
        self.pid = process.pid
        self._process = process
        self._ended = ended
        self._last: deque[str] = deque(maxlen=_LINES)
        self._stopping = False
        self.is_over = False
        self._first: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._watch = asyncio.create_task(self._follow())

    @classmethod
    async def start(
        cls, name: str, command: Sequence[str], ended: Callable[[str], None], also: Mapping[str, str] | None = None
    ) -> "Child":
        """Start a process. `also`: of its environment, beside ours. Raises OSError where the system has no room for
        another."""
        environment = {key: value for key, value in os.environ.items() if key not in _SECRETS} | dict(also or {})
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            limit=_LINE_BYTES,
        )
        return cls(name, process, ended)

    @property
    def last_words(self) -> tuple[str, ...]:
        """Return the last lines of its log, the oldest first, without time and level."""
        return tuple(_PREFIX.sub("", line) for line in self._last)

    async def first_line(self) -> str:
        """Return the first line of its standard output; empty when it ends without one."""
        return await asyncio.shield(self._first)

    async def stop(self, grace_s: float) -> None:
        """Ask it to end, and kill it after `grace_s`. `ended` is not called for it any more."""
        self._stopping = True
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), grace_s)
            except TimeoutError:
                self._process.kill()
        await self._watch

    async def _follow(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        assert self._process.stderr is not None  # noqa: S101
        await asyncio.gather(self._relay(self._process.stdout, self._say), self._relay(self._process.stderr, self._log))
        code = await self._process.wait()
        self.is_over = True
        if not self._first.done():
            self._first.set_result("")
        if not self._stopping:
            self._ended(self._why(code))

    async def _relay(self, stream: asyncio.StreamReader, take: Callable[[str], None]) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the limit: the buffer was emptied
                continue
            if not line:
                return
            take(line.decode(errors="replace").rstrip())

    def _say(self, line: str) -> None:
        if not self._first.done():
            self._first.set_result(line)

    def _log(self, line: str) -> None:
        self._last.append(line)
        print(line, file=sys.stderr, flush=True)

    def _why(self, code: int) -> str:
        if code < 0:
            name = signal.Signals(-code).name
            hint = f": {OUT_OF_MEMORY}?" if -code == signal.SIGKILL else ""
            return f"{self.name} was ended by {name}{hint}"
        own = [line for line in self._last if line.startswith(f"{self.name}: ")]
        if own:
            is_hidden = code == errno.ENOMEM and OUT_OF_MEMORY not in own[-1]
            return f"{OUT_OF_MEMORY}: {own[-1]}" if is_hidden else own[-1]
        last = _PREFIX.sub("", self._last[-1]) if self._last else "without a word"
        return f"{self.name} ended: {last}" if code == 0 else f"{self.name} ended with status {code}: {last}"
