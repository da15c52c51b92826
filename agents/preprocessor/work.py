"""Prepares what is asked on threads, and answers; the tensors lie in this process's own sidecar."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock

from agents.media.decoder import Decoders, DecoderStartError
from agents.messages.to_preprocessor import (
    Discard,
    FromPreprocessor,
    NotPrepared,
    Prepared,
    PreparePicture,
    PrepareSound,
    ToPreprocessor,
)
from agents.preprocessor.units import values_of
from agents.tensors.client import TensorClient
from agents.transfer.errors import BlobGoneError, LinkLostError, TransferError
from templates_lib.media.media_error import MediaError, MediaFault

_log = logging.getLogger(__name__)
_PUTTING = 32
"""Units that are prepared or wait for room at once: who has one that nobody takes holds up no other."""


class Preprocessing:
    def __init__(
        self, tensors: TensorClient, decoders: Decoders, answer: Callable[[FromPreprocessor], None], most_bytes: int
    ) -> None:
        """`answer`: for any thread. `most_bytes`: of a unit's values: the slab has room for no more."""
        self._tensors, self._decoders, self._answer, self._most_bytes = tensors, decoders, answer, most_bytes
        self._threads = ThreadPoolExecutor(_PUTTING, "prepare")
        self._changing = Lock()
        self._discarded: set[str] = set()
        self._open: set[str] = set()
        """Names of tensors that are being prepared."""

    def take(self, asked: ToPreprocessor) -> None:
        if isinstance(asked, Discard):
            self._discard(asked.name)
            return
        with self._changing:
            self._open.add(asked.output.name)
        self._threads.submit(self._prepare, asked)

    def _discard(self, name: str) -> None:
        """Whether it waits for its turn, for room, or for whoever takes it."""
        with self._changing:
            if name in self._open:
                self._discarded.add(name)
        with suppress(TransferError):  # it is taken already, or not there yet: then `_prepare` withdraws it
            self._tensors.withdraw(name)

    def _prepare(self, asked: PreparePicture | PrepareSound) -> None:
        name = asked.output.name
        try:
            self._answer(self._prepared(asked))
        except LinkLostError as error:
            _log.critical("the sidecar is gone: %s", error)  # who started both ends this process, and starts another
            self._answer(NotPrepared(asked.call, str(error)))
        except Exception as error:
            _log.exception("preparing %s failed", name)
            self._answer(NotPrepared(asked.call, f"it could not be prepared: {error!r}"[:4096]))
        finally:
            with self._changing:
                self._open.discard(name)
                was_discarded = name in self._discarded
                self._discarded.discard(name)
            if was_discarded:
                with suppress(TransferError):
                    self._tensors.withdraw(name)

    def _prepared(self, asked: PreparePicture | PrepareSound) -> FromPreprocessor:
        """Raises LinkLostError, and what a bug raises."""
        output = asked.output
        with self._changing:
            if output.name in self._discarded:
                return NotPrepared(asked.call, "nobody takes it any more")
        if self._tensors.adopt(output.name, output.key, keep_s=output.keep_s) is not None:
            return Prepared(asked.call, self._tensors.address)
        try:
            values = values_of(asked, self._decoders)
            if values.nbytes > self._most_bytes:  # no waiting helps, and nor does sending it again
                raise _too_large(asked, values.nbytes, self._most_bytes)
            self._tensors.put(output.name, values, key=output.key, keep_s=output.keep_s)
        except MediaError as error:
            return NotPrepared(asked.call, error.message, error.fault)
        except BlobGoneError:
            return NotPrepared(asked.call, "nobody takes it any more")
        except LinkLostError:
            raise
        except (TransferError, DecoderStartError) as error:
            return NotPrepared(asked.call, str(error)[:4096])
        return Prepared(asked.call, self._tensors.address)


def _too_large(asked: PreparePicture | PrepareSound, size: int, most: int) -> MediaError:
    what, fault = "image", MediaFault.IMAGE_TOO_LARGE
    if isinstance(asked, PrepareSound):
        what, fault = "audio", MediaFault.AUDIO_TOO_LARGE
    why = f"The {what} takes {size >> 20} MiB as the model reads it; {most >> 20} are the most. Send a smaller one"
    return MediaError(fault, why)
