"""A producer or a consumer of a blob as a process of its own, which stays until its input ends."""

import json
import sys
from collections.abc import Iterator

from agents.transfer.meeting import LinkAddress
from agents.transfer.store import BlobStore
from agents.transfer.take import take

PIECE = bytes(range(256)) * 4096


def text_of(address: str | LinkAddress) -> str:
    if isinstance(address, str):
        return json.dumps(address)
    return json.dumps([address.host, address.port, address.token.hex()])


def address_of(text: str) -> str | LinkAddress:
    found = json.loads(text)
    return found if isinstance(found, str) else LinkAddress(found[0], found[1], bytes.fromhex(found[2]))


def produce(pieces: int, ends: bool) -> None:
    """Tells both addresses of its store, then publishes "it"."""
    store = BlobStore(1 << 30, "127.0.0.1")
    print(text_of(store.local_address), flush=True)
    print(text_of(store.link_address), flush=True)

    def stream() -> Iterator[bytes]:
        for _ in range(pieces):
            yield PIECE
        if not ends:
            print("all but the end", flush=True)
            sys.stdin.read()

    store.publish("it", stream())
    print("published", flush=True)
    sys.stdin.read()


def consume(address: str, pieces: int) -> None:
    """Takes so many pieces of "it", and holds on to them."""
    taking = take(address_of(address), "it")
    held = [next(taking) for _ in range(pieces)]
    print(sum(map(len, held)), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["produce", count, ends]:
            produce(int(count), ends == "ends")
        case ["consume", address, count]:
            consume(address, int(count))
