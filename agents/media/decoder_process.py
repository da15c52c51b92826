"""`python -m agents.media.decoder_process MEMORY_BYTES CPU_S`: decodes pictures from its standard input, one by one.

It has no more memory than that, no more processor time for each picture, opens no file for writing, and has none of the
environment of who started it. It ends with its standard input.
"""

import contextlib
import importlib
import math
import os
import resource
import sys
from typing import BinaryIO

import msgspec
from PIL import Image

from agents.media.decode_order import LENGTH_BYTES, READY, DecodeOrder, DecodeReply, framed
from agents.media.pieces import pieces_of
from agents.media.pixels import decoded
from templates_lib.media.image_layout import ImageSizeError
from templates_lib.media.media_error import MediaError, MediaFault, too_costly
from templates_lib.media.rules import RULES

_DECODE = msgspec.msgpack.Decoder(DecodeOrder)
_PLUGINS = ("PngImagePlugin", "JpegImagePlugin", "MpoImagePlugin", "WebPImagePlugin", "GifImagePlugin")


def main() -> None:
    memory_bytes, cpu_s = int(sys.argv[1]), float(sys.argv[2])
    # Formats are loaded while memory is not limited yet: what fails to load then would fail each picture.
    for name in _PLUGINS:
        importlib.import_module(f"PIL.{name}")
    _limit(memory_bytes)
    orders, replies = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not stand between replies.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    replies.write(READY)
    replies.flush()
    while (order := _next(orders)) is not None:
        _grant_time(cpu_s)
        _answer(order, replies)


def _next(orders: BinaryIO) -> DecodeOrder | None:
    length = orders.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    return _DECODE.decode(orders.read(int.from_bytes(length)))


def _answer(order: DecodeOrder, replies: BinaryIO) -> None:
    pieces: list[Image.Image] = []
    try:
        pieces = _pieces(order)
        reply = DecodeReply(*pieces[0].size, len(pieces))
    except MemoryError:
        reply = _refused(too_costly())
    except ImageSizeError as error:
        reply = DecodeReply(fault=MediaFault.INVALID_IMAGE, message=str(error))
    except MediaError as error:
        reply = _refused(error)
    replies.write(framed(reply))
    for piece in pieces:
        replies.write(piece.tobytes())
    replies.flush()


def _pieces(order: DecodeOrder) -> list[Image.Image]:
    """Raises MediaError, ImageSizeError, MemoryError."""
    image = decoded(order)
    if not order.rule:
        return [image]
    return pieces_of(image, msgspec.convert(order.parameters, RULES[order.rule]))


def _refused(error: MediaError) -> DecodeReply:
    return DecodeReply(fault=error.fault, message=error.message)


def _limit(memory_bytes: int) -> None:
    for kind, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError):  # systems without such a limit
            resource.setrlimit(kind, (allowed, allowed))


def _grant_time(cpu_s: float) -> None:
    """The system ends the process once it has used so much more (SIGXCPU)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(used.ru_utime + used.ru_stime + cpu_s)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


if __name__ == "__main__":
    main()
