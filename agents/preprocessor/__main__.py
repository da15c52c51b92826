"""`python -m agents.preprocessor`: prepares pictures and sounds for encoders. It is asked on its standard input,
answers on its standard output, and ends with its input, and with its sidecar."""

import argparse
import logging
import os
import secrets
import subprocess
import sys
import threading
from typing import BinaryIO

import msgspec

from agents.media.decoder import DecoderLimits, Decoders
from agents.messages.to_preprocessor import LENGTH_BYTES, MOST_BYTES, FromPreprocessor, ToPreprocessor, framed
from agents.preprocessor.work import Preprocessing
from agents.tensors.client import TensorClient
from agents.tracing.json_lines import log_json_lines

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_DECODE = msgspec.msgpack.Decoder(ToPreprocessor)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents.preprocessor", description=__doc__)
    parser.add_argument("--interface", default="127.0.0.1", help="this machine's address, as executors' nodes reach it")
    parser.add_argument("--slab-mib", type=int, default=256, help="shared memory, for what is not taken yet")
    parser.add_argument("--decoders", type=int, default=2, help="pictures that are decoded at once")
    return parser.parse_args()


def _start_sidecar(arguments: argparse.Namespace, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "agents.tensors", "--name", name, "--interface", arguments.interface]
    command += ["--slab-mib", str(arguments.slab_mib), "--quota-mib", str(arguments.slab_mib)]
    command += ["--owner", str(os.getpid())]
    if arguments.interface not in _LOOPBACK:
        command.append("--encrypt")
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def _end_with(sidecar: subprocess.Popen[bytes]) -> None:
    code = sidecar.wait()
    logging.getLogger(__name__).critical("the tensor sidecar ended with status %d", code)
    logging.shutdown()
    os._exit(1)  # threads wait for it


def _read(pipe: BinaryIO) -> bytes | None:
    """None at its end, and for what is no message."""
    header = pipe.read(LENGTH_BYTES)
    length = int.from_bytes(header)
    if len(header) < LENGTH_BYTES or length > MOST_BYTES:
        return None
    payload = pipe.read(length)
    return payload if len(payload) == length else None


def _main() -> None:
    arguments = _arguments()
    orders, replies = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not stand between replies
    name = f"medley-preprocessor-{secrets.token_hex(8)}"
    sidecar = _start_sidecar(arguments, name)
    if sidecar.stdout is None or not sidecar.stdout.readline():
        raise SystemExit("preprocessor: its tensor sidecar did not start: is there room for --slab-mib?")
    threading.Thread(target=_end_with, args=(sidecar,), daemon=True).start()
    writing = threading.Lock()

    def answer(message: FromPreprocessor) -> None:
        with writing:
            replies.write(framed(msgspec.msgpack.encode(message)))
            replies.flush()

    decoders = Decoders(arguments.decoders, DecoderLimits())
    work = Preprocessing(TensorClient(name, "preprocessor"), decoders, answer, arguments.slab_mib << 20)
    while (payload := _read(orders)) is not None:
        work.take(_DECODE.decode(payload))
    logging.shutdown()
    os._exit(0)  # threads may be in a picture; its decoder ends with the pipe, the sidecar with its owner


if __name__ == "__main__":
    log_json_lines()
    _main()
