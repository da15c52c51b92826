"""The process that a gateway of several workers is: it starts them, and others in place of those that end."""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import uvloop

from agents.channels.keys import KeyPair
from control.access.pepper import peppers_of
from control.gateway.counts import Counts, shared_bytes
from control.gateway.workers.exchange import Exchange
from control.gateway.workers.member import Member
from control.gateway.workers.messages import Ping, Serve, ToSupervisor
from control.gateway.workers.pipe import Pipe, PipeClosedError
from control.listener import reserved, url_of

_log = logging.getLogger(__name__)

DECODER: msgspec.msgpack.Decoder[ToSupervisor] = msgspec.msgpack.Decoder(ToSupervisor)
_LAST_WORDS_S = 1.0
"""Time in which what an ended worker has sent is read."""
_PAUSE_S, _MOST_PAUSE_S = 0.1, 10.0
"""Before a worker is started again; it doubles with each in a row that ends before `_STEADY_S`."""
_STEADY_S = 30.0
_ALLOCATOR = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=128"}
"""Environment of workers, where it has no such variable. Tokenising frees thousands of small blocks at once, of which
glibc by itself keeps 7 of a size within reach: a tenth of that work. It may keep 4 MiB more for each thread so."""
_BEATS = 10
"""Heartbeats that a worker may let pass in the time in which it may be silent."""
_START_S = 120.0
"""Silence of a worker that takes no clients yet: to load code and vocabularies may hold up its loop."""


class WorkerError(OSError):
    """A worker does not start; its own message, in the log, says why."""


def supervise(order: Serve, workers: int) -> None:
    """Serve by so many workers until SIGINT or SIGTERM, as `control.gateway.start.start` says; a second signal ends
    answers under way. `order`: its host and port are as they are asked for."""
    KeyPair.load(Path(order.key))
    peppers_of(os.environ)
    with reserved(order.host, order.port) as port:
        workers = workers or len(os.sched_getaffinity(0))
        settings = order.settings.of_each(workers)
        order = msgspec.structs.replace(order, port=port.getsockname()[1], settings=settings)
        uvloop.run(_run(order, workers, url_of(port, is_tls=order.tls is not None)))


async def _run(order: Serve, workers: int, url: str) -> None:
    supervisor, loop = _Supervisor(order, workers), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, supervisor.end)
    await supervisor.run(url)


class _Supervisor:
    """Make it on a running loop."""

    def __init__(self, order: Serve, workers: int) -> None:
        self._order = order
        self._workers = workers
        self._exchange = Exchange(workers)
        self._counted_in = os.memfd_create("medley-gateway")
        os.ftruncate(self._counted_in, shared_bytes(workers))
        self._counts = Counts.shared(self._counted_in, 0)
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._ending = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def run(self, url: str) -> None:
        """Raises WorkerError where one ends before all have listened."""
        tasks = [asyncio.create_task(self._keep(number)) for number in range(self._workers)]
        all_listen = asyncio.create_task(self._exchange.all_listen.wait())
        try:
            await asyncio.wait((all_listen, *tasks), return_when=asyncio.FIRST_COMPLETED)
            if all_listen.done():
                print(json.dumps({"url": url}), flush=True)
            await asyncio.gather(*tasks)
        finally:
            self._ending.set()
            all_listen.cancel()
            self._signal(signal.SIGKILL)
            await asyncio.gather(*tasks, return_exceptions=True)

    def end(self) -> None:
        """Have all workers finish what they have, and end. The second time they end at once."""
        number = signal.SIGKILL if self._ending.is_set() else signal.SIGTERM
        self._ending.set()
        self._signal(number)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def _keep(self, number: int) -> None:
        """Have a worker of that number run until this process is to end. Raises WorkerError."""
        pause_s, is_replacement = _PAUSE_S, False
        while not self._ending.is_set():
            order = msgspec.structs.replace(self._order, worker=number, is_replacement=is_replacement)
            began_s = self._loop.time()
            how = await self._lived(order)
            if self._ending.is_set():
                return
            if not self._exchange.all_listen.is_set():
                raise WorkerError(f"worker {number} {how} before all listened; the log says why")
            pause_s = _PAUSE_S if self._loop.time() - began_s > _STEADY_S else min(2 * pause_s, _MOST_PAUSE_S)
            _log.error("worker %d %s; what it was answering broke off; another starts in %g s", number, how, pause_s)
            self._exchange.restarts += 1
            is_replacement = True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), pause_s)

    async def _lived(self, order: Serve) -> str:
        """Start a worker and take in what it sends until it is gone; return how it ended."""
        own, its = socket.socketpair()
        passed = its.fileno(), self._counted_in
        command = (sys.executable, "-m", "control.gateway.workers", *map(str, passed))
        with its:
            try:
                # A session of its own: Ctrl-C is for the supervisor, which has workers finish what they have.
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    env=_ALLOCATOR | os.environ,
                    pass_fds=passed,
                    start_new_session=True,
                )
            except OSError as error:
                own.close()
                return f"cannot be started: {error.strerror}"
        self._processes[order.worker] = process
        if self._ending.is_set():
            self._signal(signal.SIGTERM)  # the others were asked to end while this one was being started
        pipe = await Pipe.over(own, DECODER)
        member = Member(order.worker, pipe)
        self._exchange.join(member)
        pipe.send(order)
        reader = asyncio.create_task(self._read(member, process))
        watch = asyncio.create_task(self._watch(member, process))
        try:
            code = await process.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(reader, _LAST_WORDS_S)
        finally:
            watch.cancel()
            reader.cancel()
            self._counts.clear(order.worker)
            del self._processes[order.worker]
            self._exchange.leave(member)
            await pipe.close()
        return f"ended with code {code}"

    async def _read(self, member: Member, process: asyncio.subprocess.Process) -> None:
        try:
            while True:
                message = await member.pipe.receive()
                member.silent_beats = 0
                self._exchange.take_in(member, message)
        except PipeClosedError:
            pass
        except Exception:  # it would wait for answers in vain
            about = "if its files are of another release than this process, start the gateway again"
            _log.exception("what worker %d sends is not understood, and it is ended; %s", member.number, about)
            with suppress(ProcessLookupError):
                process.kill()

    async def _watch(self, member: Member, process: asyncio.subprocess.Process) -> None:
        """End a worker that hangs, in its code or as somebody has stopped it: it would keep its part of the connections
        that come, and all that it holds."""
        silence_s = self._order.settings.worker_silence_s
        beat_s = silence_s / _BEATS
        while True:
            await asyncio.sleep(beat_s)
            most_s = silence_s if member.is_listening else max(silence_s, _START_S)
            if member.silent_beats * beat_s >= most_s:
                _log.error("worker %d gives no sign of life for %g s, and is ended", member.number, most_s)
                with suppress(ProcessLookupError):
                    process.kill()  # which ends one that is stopped, too
                return
            member.silent_beats += 1
            member.pipe.send(Ping())
