"""The gateway's end of its preprocessor: a process that turns pictures and sounds into units, started when one is first
needed, and again when it is gone."""

import asyncio
import logging
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count

import msgspec

from agents.messages.to_preprocessor import (
    LENGTH_BYTES,
    Discard,
    FromPreprocessor,
    Output,
    Prepared,
    PreparePicture,
    PrepareSound,
    ToPreprocessor,
    framed,
)
from agents.messages.to_sidecar import SidecarAddress
from control.gateway.media.media_unit import MediaUnit
from control.gateway.media.reading import MediaReading
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.unit_room import unit_bytes
from templates_lib.media.image_format import ImageHeader
from templates_lib.media.media_error import MediaError

_log = logging.getLogger(__name__)
_DECODE = msgspec.msgpack.Decoder(FromPreprocessor)
_MIB = 1 << 20
_SLAB_MIB, _BESIDE_MIB = 256, 64
"""Room for pictures and sounds of usual sizes, and beside the largest of a model."""
_TRIES = 2
"""A picture that ends the process twice may be what does it."""


class PreprocessorError(RuntimeError):
    """The unit could not be made; the request may be sent again."""


class _LostError(Exception):
    """The process is gone."""


class _Life:
    """One process, from its start to its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.waiting: dict[int, asyncio.Future[FromPreprocessor]] = {}
        self._takes_nothing = False  # one of its pipes may be found closed before the other
        self.reader = asyncio.create_task(self._read())

    @property
    def is_over(self) -> bool:
        return self._takes_nothing or self.reader.done()

    def write(self, message: ToPreprocessor) -> None:
        if self.process.stdin is not None and not self.process.stdin.is_closing():
            self.process.stdin.write(framed(msgspec.msgpack.encode(message)))

    async def drain(self) -> None:
        """Wait until the process has read what it was sent, but for a little. Raises _LostError."""
        try:
            if self.process.stdin is not None:
                await self.process.stdin.drain()
        except OSError:
            self._takes_nothing = True
            raise _LostError from None

    async def _read(self) -> None:
        pipe = self.process.stdout
        assert pipe is not None  # noqa: S101 - it was started with one
        try:
            while True:
                size = int.from_bytes(await pipe.readexactly(LENGTH_BYTES))
                answer: FromPreprocessor = _DECODE.decode(await pipe.readexactly(size))
                waiter = self.waiting.pop(answer.call, None)
                if waiter is not None and not waiter.done():
                    waiter.set_result(answer)
        except asyncio.IncompleteReadError:
            _log.warning("the preprocessor ended")
        finally:
            for waiter in self.waiting.values():
                if not waiter.done():
                    waiter.set_exception(_LostError())

    async def end(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        self.reader.cancel()
        await asyncio.gather(self.reader, return_exceptions=True)


class Preprocessor:
    """Make it on a running loop."""

    def __init__(self, arguments: Sequence[str], slab_mib: int = 0) -> None:
        """`arguments`: of `python -m agents.preprocessor`, but for its slab. `slab_mib`: of that; 0: as large as the
        models that are served ask for when it starts (`serve`)."""
        self._command = (sys.executable, "-m", "agents.preprocessor", *arguments)
        self._given_mib, self._asked_mib = slab_mib, _SLAB_MIB
        self._life: _Life | None = None
        self._starting = asyncio.Lock()
        self._calls = count(1)

    @property
    def pid(self) -> int | None:
        """None: none runs."""
        return None if self._life is None or self._life.is_over else self._life.process.pid

    @property
    def slab_mib(self) -> int:
        """Return the room of the next process, which bounds a picture."""
        return self._given_mib or self._asked_mib

    def serve(self, graphs: Iterable[ModelGraph]) -> None:
        """Have room for the largest picture or sound of these models, from the next process on."""
        largest = max((unit_bytes(graph)[0] for graph in graphs), default=0)
        self._asked_mib = max(_SLAB_MIB, -(-largest // _MIB) + _BESIDE_MIB)

    async def prepare(self, unit: MediaUnit, reading: MediaReading, output: Output) -> SidecarAddress:
        """Have the unit made; return where it lies. Raises MediaError for what is damaged, and PreprocessorError."""
        for _ in range(_TRIES):
            call = next(self._calls)
            order = _order(call, unit, reading, output)
            try:
                answer = await self._asked(call, order)
            except _LostError:
                continue
            if isinstance(answer, Prepared):
                return answer.place
            if answer.fault is not None:
                raise MediaError(answer.fault, answer.reason)
            raise PreprocessorError(answer.reason)
        raise PreprocessorError("it ended while the unit was being prepared")

    def discard(self, name: str) -> None:
        """Nobody takes that tensor any more, if it is there."""
        if self._life is not None and not self._life.is_over:
            self._life.write(Discard(name))

    async def close(self) -> None:
        if self._life is not None:
            await self._life.end()

    async def _asked(self, call: int, order: ToPreprocessor) -> FromPreprocessor:
        """Raises _LostError, PreprocessorError."""
        life = await self._running()
        waiter: asyncio.Future[FromPreprocessor] = asyncio.get_running_loop().create_future()
        life.waiting[call] = waiter
        try:
            life.write(order)
            await life.drain()
            if life.is_over:
                raise _LostError
            return await waiter
        finally:
            life.waiting.pop(call, None)

    async def _running(self) -> _Life:
        """Raises PreprocessorError."""
        async with self._starting:
            if self._life is not None and self._life.is_over:
                await self._life.end()
                self._life = None
            if self._life is None:
                command = (*self._command, "--slab-mib", str(self.slab_mib))
                try:
                    process = await asyncio.create_subprocess_exec(
                        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
                    )
                except OSError as error:
                    raise PreprocessorError(f"no process can be started: {error.strerror}") from error
                self._life = _Life(process)
            return self._life


def _order(call: int, unit: MediaUnit, reading: MediaReading, output: Output) -> PreparePicture | PrepareSound:
    """Raises PreprocessorError."""
    header = unit.header
    if isinstance(header, ImageHeader):
        if reading.form is None:
            raise PreprocessorError("the table does not say how its pictures are normalised")
        about = header.format, header.width, header.height, header.orientation
        return PreparePicture(call, output, reading.form, *about, unit.data)
    sound = header.samples_per_s, header.channels, header.bits, header.is_float, header.start, header.frames
    return PrepareSound(call, output, *sound, unit.data)
