"""A port for a server that is started later, or again where it was: nobody gets it by chance meanwhile."""

import random
import socket
from itertools import count

FIRST, END = 20_000, 32_000
"""Below those that the system gives to whoever asks for any: of connections and of servers with port 0."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    draw = random.SystemRandom()
    for tries in count(1):
        port = draw.randrange(FIRST, END)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                if tries == 100:
                    raise
                continue
            return port
    raise AssertionError


def free_address() -> str:
    """The same as the place of a channel's listener, tcp://host:port."""
    return f"tcp://127.0.0.1:{free_port()}"
