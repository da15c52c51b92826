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
from control.gateway.workers.exchange import Exchange
from control.gateway.workers.member import Member
from control.gateway.workers.messages import Serve, ToSupervisor
from control.gateway.workers.pipe import Pipe, PipeClosedError
from control.listener import reserved, url_of

_log = logging.getLogger(__name__)

DECODER: msgspec.msgpack.Decoder[ToSupervisor] = msgspec.msgpack.Decoder(ToSupervisor)
_LAST_WORDS_S = 1.0
"""Time in which what an ended worker has sent is read."""
_PAUSE_S, _MOST_PAUSE_S = 0.1, 10.0
"""Before a worker is started again; it doubles with each in a row that ends before `_STEADY_S`."""
_STEADY_S = 30.0


class WorkerError(OSError):
    """A worker does not start; its own message, in the log, says why."""


def supervise(order: Serve, workers: int) -> None:
    """Serve by so many workers until SIGINT or SIGTERM, as `control.gateway.start.start` says; a second signal ends
    answers under way. `order`: its host and port are as they are asked for."""
    KeyPair.load(Path(order.key))
    peppers_of(os.environ)
    with reserved(order.host, order.port) as port:
        order = msgspec.structs.replace(order, port=port.getsockname()[1])
        uvloop.run(_run(order, workers or len(os.sched_getaffinity(0)), url_of(port, is_tls=order.tls is not None)))


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
        command = (sys.executable, "-m", "control.gateway.workers", str(its.fileno()))
        with its:
            try:
                # A session of its own: Ctrl-C is for the supervisor, which has workers finish what they have.
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=asyncio.subprocess.DEVNULL, pass_fds=(its.fileno(),), start_new_session=True
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
        try:
            code = await process.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(reader, _LAST_WORDS_S)
        finally:
            reader.cancel()
            del self._processes[order.worker]
            self._exchange.leave(member)
            await pipe.close()
        return f"ended with code {code}"

    async def _read(self, member: Member, process: asyncio.subprocess.Process) -> None:
        try:
            while True:
                self._exchange.take_in(member, await member.pipe.receive())
        except PipeClosedError:
            pass
        except Exception:  # it would wait for answers in vain
            about = "if its files are of another release than this process, start the gateway again"
            _log.exception("what worker %d sends is not understood, and it is ended; %s", member.number, about)
            with suppress(ProcessLookupError):
                process.kill()
