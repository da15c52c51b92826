"""Takes blobs out of a store, the same inside a node and over a link that is connected again when it breaks."""

import math
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from agents.messages.to_store import StoreReply, Take
from agents.transfer.carriers import Carrier, dial
from agents.transfer.errors import BadPieceError, BlobGoneError, LinkLostError, TransferError
from agents.transfer.meeting import LinkAddress

_RETRY_S = 0.05
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(StoreReply).decode


def take(
    store: str | LinkAddress,
    name: str,
    *,
    credit: int = 4,
    wait_s: float = 60.0,
    stall_s: float = 10.0,
    max_piece_bytes: int = 1 << 30,
) -> Iterator[memoryview]:
    """Yields the pieces of a blob, which stay for as long as they are held.

    `store`: its address, local on its own node, else of its links. `credit`: pieces that may be under way, each of
    `max_piece_bytes` at most. `wait_s`: for a blob that is not published yet. `stall_s`: the longest that a link may do
    nothing, and that is tried to connect it again.

    Raises BlobGoneError, BadPieceError and LinkLostError, behind any piece: what came is the whole blob only where
    nothing is raised."""
    consumer, index, asked = secrets.token_hex(16), 0, 0
    carrier: Carrier | None = None
    give_up_s = math.inf
    try:
        while True:
            try:
                if carrier is None:
                    carrier, asked = dial(store, stall_s, max_piece_bytes), index
                while asked < index + credit:
                    carrier.send(_encode(Take(name, consumer, asked, index, wait_s)))
                    asked += 1
                message, piece = carrier.receive()
            except LinkLostError:
                give_up_s = min(give_up_s, time.monotonic() + stall_s)
                if isinstance(store, str) or time.monotonic() >= give_up_s:
                    raise
                if carrier is not None:
                    carrier.close()
                carrier = None
                time.sleep(_RETRY_S)
                continue
            give_up_s = math.inf
            reply = _decode(message)
            if reply.answer == "ended":
                with suppress(TransferError):  # else the store waits for this consumer to come back
                    carrier.send(_encode(Take(name, consumer, index, index, wait_s)))
                    for _ in range(asked - index):
                        carrier.receive()
                return
            if reply.answer != "piece" or piece is None:
                raise (BlobGoneError if reply.answer == "gone" else BadPieceError)(reply.reason)
            yield piece.view()
            index += 1
    finally:
        if carrier is not None:
            carrier.close()
