"""A producer or a consumer of a tensor as a process of its own, which stays until its input ends."""

import sys

import numpy as np

from agents.tensors.client import TensorClient
from tests.agents.tensors.nodes import PAGE

CHUNK = 16 * PAGE
SIZE = 4 * CHUNK


def produce(sidecar: str, what: str) -> None:
    """Puts "whole", or the first half of "half", which it goes on to write."""
    client = TensorClient(sidecar, "producer")
    if what == "whole":
        client.put("it", np.full(SIZE, 7, np.uint8), consumers=2)
    else:
        writer = client.create("it", "uint8", (SIZE,))
        writer.array[: SIZE // 2] = 7
        writer._commit()
        writer._commit()
    print("ready", flush=True)
    sys.stdin.read()


def consume(sidecar: str, what: str) -> None:
    """Takes "it" and holds on to it, with or without its connection."""
    client = TensorClient(sidecar, "consumer", writes=False)
    taken = client.take("it")
    if what == "hang up":
        client._calls._hang_up()
    print(int(taken.array.sum()), flush=True)
    sys.stdin.read()
    del taken


if __name__ == "__main__":
    act, name, how = sys.argv[1:]
    (produce if act == "produce" else consume)(name, how)
